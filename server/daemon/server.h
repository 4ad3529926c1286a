// The daemon as one value: it has all rooms, starts them, and ends them.
//
// Only main.c and this room know it. Immutable after start but for the parts that lock themselves and the atomics.
#ifndef VOXELD_SERVER_H
#define VOXELD_SERVER_H

#include <stdatomic.h>
#include <stdint.h>

#include "server/base/counters.h"
#include "server/base/phase.h"
#include "server/clients/access.h"
#include "server/clients/clients.h"
#include "server/config/options.h"
#include "server/config/proxies.h"
#include "server/config/shelf.h"
#include "server/http/http.h"
#include "server/jobs/jobs.h"
#include "server/net/watcher.h"
#include "server/pages/view.h"

struct server {
  struct options options;
  int64_t started_ns;      // by clock_ns
  int64_t started_unix_s;  // by the calendar's clock
  atomic_int phase;        // enum phase
  struct counters counters;

  struct shelf shelf;
  struct access access;
  struct proxies proxies;
  struct clients clients;
  struct watcher watcher;
  struct jobs jobs;
  struct http http;
  struct view view;
};

// Loads presets, tokens and certificates. False with a reason.
VX_WARN_UNUSED bool server_prepare(struct server *server, char *error, size_t error_size);
// After that: whether everything else that options name is good, without serving. False with a reason.
VX_WARN_UNUSED bool server_check(struct server *server, char *error, size_t error_size);
// Or serves. `gpu_lost` is called on any thread for each GPU that is lost. False with a reason.
VX_WARN_UNUSED bool server_start(struct server *server, void (*gpu_lost)(void *cls), void *gpu_lost_cls, char *error,
                                 size_t error_size);
// When no job waits or runs: see drain.h.
void server_stop(struct server *server);

#endif
