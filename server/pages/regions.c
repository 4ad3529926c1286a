// The pages of shared-memory regions; see regions.h.
#include "server/pages/regions.h"

#include "server/pages/view.h"

// Only while it is joined is the client sure to exist.
static struct client *join(const struct view *view, const struct page_asked *asked, struct error *error) {
  struct client *client = clients_join(view->clients, asked->user, asked->address);
  if (!client) error_refuse(error, ERROR_CONNECTIONS_FULL, NULL, "there are too many clients now");
  return client;
}

static const char *name_of(const struct page_asked *asked) { return asked->name[0] ? asked->name : NULL; }

// A request that is not of this machine, as far as can be seen, has no regions, even if its client's address does.
bool regions_write_status(const struct view *view, const struct page_asked *asked, struct text *out,
                          struct error *error) {
  if (!asked->local) return regions_write(&view->jobs->regions, NULL, name_of(asked), out, error);
  struct client *client = join(view, asked, error);
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
  struct client *client = join(view, asked, error);
  if (!client) return false;
  const struct object_asker asker = {asked->user, asked->address};
  bool good = regions_register(regions, client, &asker, &terms, error);
  clients_leave(view->clients, client);
  return good;
}

bool regions_act_unregister(const struct view *view, const struct page_asked *asked, struct error *error) {
  if (!asked->local) return true;
  struct client *client = join(view, asked, error);
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

bool regions_write_nothing(const struct view *view, const struct page_asked *asked, struct text *out,
                           struct error *error) {
  (void)view, (void)asked, (void)error;
  text_put(out, "{}\n");
  return true;
}
