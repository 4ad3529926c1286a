// The daemon as one value: holds all rooms, starts them and stops them.
//
// Only main.c and this room include it. After the start, only atomics and the parts with their own locks change.
#ifndef VOXELD_SERVER_H
#define VOXELD_SERVER_H

#include <stdatomic.h>
#include <stdint.h>

#include "server/base/counters.h"
#include "server/base/phase.h"
#include "server/clients/access.h"
#include "server/clients/clients.h"
#include "server/config/catalog.h"
#include "server/config/options.h"
#include "server/config/proxies.h"
#include "server/http/http.h"
#include "server/jobs/jobs.h"
#include "server/jobs/warm.h"
#include "server/net/watcher.h"
#include "server/pages/view.h"

struct server {
  struct options options;
  int64_t started_ns;      // by clock_ns
  int64_t started_unix_s;  // seconds since 1970
  atomic_int phase;        // enum phase
  struct counters counters;

  struct catalog catalog;
  struct access access;
  struct proxies proxies;
  struct clients clients;
  struct clients page_clients;  // of the connections that get pages alone
  struct watcher watcher;
  struct jobs jobs;
  struct warm_progress warming;
  struct http http;
  struct view view;
};

// Loads presets, tokens and certificates. False with a reason.
VX_WARN_UNUSED bool server_prepare(struct server *server, struct error *error);
// After server_prepare: checks the listeners and opens the devices, without serving. False with a reason.
VX_WARN_UNUSED bool server_check(struct server *server, struct error *error);
// After server_prepare: starts all rooms. Calls `gpu_lost` on a worker's thread for each GPU that is lost. False with a
// reason; the process must end then, since some rooms may have started.
VX_WARN_UNUSED bool server_start(struct server *server, void (*gpu_lost)(void *cls), void *gpu_lost_cls,
                                 struct error *error);
// Logs which of the models do not serve, or serve in place of newer files, and why.
void server_log_broken(const struct detectors *models);
// Takes the sessions on lost GPUs from the models that are served. Any thread, after each loss and each reload.
void server_leave_lost(struct server *server);
// Stops all rooms and frees what they hold. No job may wait or run: drain comes first.
void server_stop(struct server *server);

#endif
