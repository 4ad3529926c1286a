// The pages of shared-memory regions; see pages.h.
#include "server/pages/pages.h"

static const char *name_of(const struct page_asked *asked) { return asked->name[0] ? asked->name : NULL; }

static enum region_kind kind_of(const struct page_asked *asked) {
  return asked->page->of_gpu ? REGION_CUDA : REGION_SYSTEM;
}

// A request that may come from another machine sees no regions.
bool regions_write_status(const struct page_asked *asked, struct text *out, struct error *error) {
  const struct client *client = asked->local ? asked->client : NULL;
  return regions_write(&asked->service->jobs.regions, client, kind_of(asked), name_of(asked), out, error);
}

bool regions_act_register(const struct page_asked *asked, struct error *error) {
  struct regions *regions = &asked->service->jobs.regions;
  const struct object_asker asker = {asked->user, asked->address};
  struct region_terms terms;
  return regions_allow(regions, kind_of(asked), asked->local, error) &&
         region_terms_read(kind_of(asked), asked->name, asked->body, asked->body_size, &terms, error) &&
         regions_register(regions, asked->client, &asker, &terms, error);
}

bool regions_act_unregister(const struct page_asked *asked, struct error *error) {
  struct regions *regions = &asked->service->jobs.regions;
  return !asked->local || regions_unregister(regions, asked->client, kind_of(asked), name_of(asked), error);
}
