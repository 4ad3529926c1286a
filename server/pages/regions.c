// The pages of shared-memory regions; see pages.h.
#include "server/pages/pages.h"

static const char *name_of(const struct page_asked *asked) { return asked->name[0] ? asked->name : NULL; }

// A request that may come from another machine sees no regions, even if its client has some.
bool regions_write_status(const struct view *view, const struct page_asked *asked, struct text *out,
                          struct error *error) {
  if (!asked->local) return regions_write(&view->jobs->regions, NULL, name_of(asked), out, error);
  struct client *client = view_join(view, asked, error);
  if (!client) return false;
  bool good = regions_write(&view->jobs->regions, client, name_of(asked), out, error);
  clients_leave(view->clients, client);
  return good;
}

bool regions_act_register(const struct view *view, const struct page_asked *asked, struct error *error) {
  struct regions *regions = &view->jobs->regions;
  struct region_terms terms;
  if (!regions_allow(regions, asked->local, error) ||
      !region_terms_read(asked->name, asked->body, asked->body_size, &terms, error))
    return false;
  struct client *client = view_join(view, asked, error);
  if (!client) return false;
  const struct object_asker asker = {asked->user, asked->address};
  bool good = regions_register(regions, client, &asker, &terms, error);
  clients_leave(view->clients, client);
  return good;
}

bool regions_act_unregister(const struct view *view, const struct page_asked *asked, struct error *error) {
  if (!asked->local) return true;
  struct client *client = view_join(view, asked, error);
  if (!client) return false;
  bool good = regions_unregister(&view->jobs->regions, client, name_of(asked), error);
  clients_leave(view->clients, client);
  return good;
}

bool regions_write_none(const struct view *view, const struct page_asked *asked, struct text *out,
                        struct error *error) {
  (void)view, (void)asked, (void)error;
  text_put(out, "[]\n");
  return true;
}

bool regions_act_refuse(const struct view *view, const struct page_asked *asked, struct error *error) {
  (void)view, (void)asked;
  return error_refuse(error, ERROR_NO_SHARED_MEMORY, NULL,
                      "CUDA memory is not shared; register system shared memory, or send the points");
}
