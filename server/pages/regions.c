// The pages of shared-memory regions; see pages.h.
#include "server/pages/pages.h"

static const char *name_of(const struct page_asked *asked) { return asked->name[0] ? asked->name : NULL; }

// A request that may come from another machine sees no regions, even if its client has some.
bool regions_write_status(const struct page_asked *asked, struct text *out, struct error *error) {
  return regions_write(&asked->service->jobs.regions, asked->local ? asked->client : NULL, name_of(asked), out, error);
}

bool regions_act_register(const struct page_asked *asked, struct error *error) {
  struct regions *regions = &asked->service->jobs.regions;
  struct region_terms terms;
  if (!regions_allow(regions, asked->local, error) ||
      !region_terms_read(asked->name, asked->body, asked->body_size, &terms, error))
    return false;
  const struct object_asker asker = {asked->user, asked->address};
  return regions_register(regions, asked->client, &asker, &terms, error);
}

bool regions_act_unregister(const struct page_asked *asked, struct error *error) {
  return !asked->local || regions_unregister(&asked->service->jobs.regions, asked->client, name_of(asked), error);
}

bool regions_act_refuse(const struct page_asked *asked, struct error *error) {
  (void)asked;
  return error_refuse(error, ERROR_NO_SHARED_MEMORY, NULL,
                      "CUDA memory is not shared; register system shared memory, or send the points");
}
