// How much each client holds; see pages.h.
#include "server/pages/pages.h"

#include "api/base/json_write.h"

enum { SHOWN = 16 };  // clients

static const struct {
  enum share share;
  const char *name;
} shown[] = {{SHARE_CONNECTIONS, "connections"},
             {SHARE_JOBS, "queue"},
             {SHARE_LONG_JOBS, "long_queue"},
             {SHARE_DETECTION_JOBS, "detection_queue"},
             {SHARE_BYTES, "buffer_bytes"}};

static void write_amounts(const int64_t amounts[SHARES], struct text *out) {
  for (size_t i = 0; i < sizeof shown / sizeof *shown; i++)
    json_printf(out, "%s:%ld", shown[i].name, amounts[shown[i].share]);
}

void shares_write(struct service *service, bool named, struct text *out) {
  struct client_use clients[SHOWN];
  struct clients_use use = clients_use(&service->clients);
  size_t count = clients_greediest(&service->clients, clients, SHOWN);
  json_printf(out, "clients:{present:%ld limits:{", use.present);
  write_amounts(use.limits, out);
  json_printf(out, "}greediest:[");
  for (size_t i = 0; i < count; i++) {
    json_printf(out, "{number:%zu", clients[i].number);
    if (named) json_printf(out, "name:%s", clients[i].name);
    write_amounts(clients[i].held, out);
    json_printf(out, "}");
  }
  json_printf(out, "]}");
}
