// Who holds how much; see shares.h.
#include "server/pages/shares.h"

#include <string.h>

enum { SHOWN = 16 };  // clients

static const struct {
  enum share share;
  const char *name;
} shown[] = {{SHARE_CONNECTIONS, "connections"},
             {SHARE_JOBS, "queue"},
             {SHARE_SAMPLING_JOBS, "sampling_queue"},
             {SHARE_DETECTION_JOBS, "detection_queue"},
             {SHARE_BYTES, "buffer_bytes"}};

static void write_amounts(const int64_t amounts[SHARES], struct text *out) {
  for (size_t i = 0; i < sizeof shown / sizeof *shown; i++)
    text_printf(out, "%s\"%s\":%lld", i ? "," : "", shown[i].name, (long long)amounts[shown[i].share]);
}

void shares_write(const struct view *view, bool named, struct text *out) {
  struct client_use clients[SHOWN];
  struct clients_use use = clients_use(view->clients);
  size_t count = clients_greediest(view->clients, clients, SHOWN);
  text_printf(out, ",\"clients\":{\"present\":%lld,\"limits\":{", (long long)use.present);
  write_amounts(use.limits, out);
  text_put(out, "},\"greediest\":[");
  for (size_t i = 0; i < count; i++) {
    text_printf(out, "%s{\"number\":%zu,", i ? "," : "", clients[i].number);
    if (named) {
      text_put(out, "\"name\":");
      text_json_string(out, clients[i].name, strlen(clients[i].name));
      text_put(out, ",");
    }
    write_amounts(clients[i].held, out);
    text_put(out, "}");
  }
  text_put(out, "]}");
}
