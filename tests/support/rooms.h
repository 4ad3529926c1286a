// A `service` with the rooms that pages show, opened as in the daemon, but without a listener. `open_rooms` and
// `close_rooms` are the setup and the teardown of a group of tests. Main thread.
#ifndef VOXELD_TESTS_ROOMS_H
#define VOXELD_TESTS_ROOMS_H

#include <stdatomic.h>

#include "server/base/base.h"
#include "server/pages/pages.h"

static struct service service = {.options = {.backend = BACKEND_CPU,
                                             .devices = "all",
                                             .workers = 2,
                                             .long_workers = 1,
                                             .queue_depth = 64,
                                             .max_connections = 100,
                                             .memory_budget_bytes = 16 << 20},
                                 .started_unix_s = 1700000000,
                                 .phase = PHASE_READY,
                                 .watcher = {.lock = LOCK_INITIALIZER}};

static void on_gpu_lost(void *cls) { (void)cls; }

static int open_rooms(void **state) {
  (void)state;
  struct error error;
  const int64_t limits[SHARES] = {
      [SHARE_CONNECTIONS] = 100,   [SHARE_JOBS] = 64,        [SHARE_LONG_JOBS] = 65,
      [SHARE_DETECTION_JOBS] = 66, [SHARE_BYTES] = 16 << 20, [SHARE_QUICK_BYTES] = 16 << 20};
  gate_init(&service.gate, 0, NULL, NULL);
  return catalog_open(&service.catalog, "", "", "", 1, 0, &error) && clients_init(&service.clients, 4, limits) &&
                 jobs_start(&service.jobs, &service.options, &service.clients, &service.counters, &service.watcher,
                            on_gpu_lost, NULL, &error)
             ? 0
             : -1;
}

static int close_rooms(void **state) {
  (void)state;
  jobs_stop(&service.jobs);
  jobs_join(&service.jobs);
  jobs_end(&service.jobs);
  clients_end(&service.clients);
  catalog_close(&service.catalog);
  gate_end(&service.gate);
  return 0;
}

#endif
