// Reloading; see reload.h.
#include "server/daemon/reload.h"

#include "server/base/clock.h"
#include "server/base/log.h"
#include "server/base/notify.h"
#include "server/daemon/server.h"

static bool reload_presets(struct server *server, char *error, size_t error_size) {
  return shelf_reload(&server->shelf, server->options.presets_dir, error, error_size);
}

static bool reload_tokens(struct server *server, char *error, size_t error_size) {
  return access_reload_tokens(&server->access, &server->options, error, error_size);
}

static bool reload_certificates(struct server *server, char *error, size_t error_size) {
  return tls_reload(&server->access.tls, &server->options, error, error_size);
}

void reload(struct server *server) {
  const struct options *options = &server->options;
  const struct {
    const char *name, *source;
    bool (*reload)(struct server *server, char *error, size_t error_size);
  } parts[] = {{"presets", options->presets_dir, reload_presets},
               {"tokens", options->token_file, reload_tokens},
               {"certificates", options->tls_cert, reload_certificates}};
  notify_supervisor("RELOADING=1\nMONOTONIC_USEC=%lld", (long long)(clock_ns() / NS_PER_US));
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    if (!parts[i].source[0]) continue;
    char error[512];
    struct log_line line;
    bool good = parts[i].reload(server, error, sizeof error);
    log_begin(&line, good ? LOG_INFO : LOG_ERROR, good ? "reloaded" : "not reloaded");
    log_string(&line, "what", parts[i].name);
    if (!good) log_string(&line, "reason", error);
    log_end(&line);
  }
  notify_supervisor("READY=1");
}
