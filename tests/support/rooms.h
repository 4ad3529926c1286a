// The rooms that pages show, opened as the daemon opens them but without a listener: for a program of unit tests that
// writes pages over `http.service`. `open_rooms` and `close_rooms` are the setup and the teardown of its group. Main
// thread; the workers sleep.
#ifndef VOXELD_TESTS_ROOMS_H
#define VOXELD_TESTS_ROOMS_H

#include <stdatomic.h>

#include "server/base/base.h"
#include "server/pages/pages.h"

static struct options options = {.backend = BACKEND_CPU,
                                 .devices = "all",
                                 .workers = 2,
                                 .long_workers = 1,
                                 .queue_depth = 64,
                                 .max_connections = 100,
                                 .memory_budget_bytes = 16 << 20};
static atomic_int phase = PHASE_READY;
static struct counters counters;
static struct catalog catalog;
static struct clients clients;
static struct watcher watcher = {.lock = LOCK_INITIALIZER};
static struct jobs jobs;
static struct warm_progress warming;
static struct http http = {.service = {.options = &options,
                                       .phase = &phase,
                                       .started_unix_s = 1700000000,
                                       .counters = &counters,
                                       .watcher = &watcher,
                                       .catalog = &catalog,
                                       .clients = &clients,
                                       .jobs = &jobs,
                                       .warming = &warming}};

static void on_gpu_lost(void *cls) { (void)cls; }

static int open_rooms(void **state) {
  (void)state;
  struct error error;
  const int64_t limits[SHARES] = {
      [SHARE_CONNECTIONS] = 100,   [SHARE_JOBS] = 64,        [SHARE_LONG_JOBS] = 65,
      [SHARE_DETECTION_JOBS] = 66, [SHARE_BYTES] = 16 << 20, [SHARE_QUICK_BYTES] = 16 << 20};
  http_init(&http);
  return catalog_open(&catalog, "", "", "", 1, 0, &error) && clients_init(&clients, 4, limits) &&
                 jobs_start(&jobs, &options, &clients, &counters, &watcher, on_gpu_lost, NULL, &error)
             ? 0
             : -1;
}

static int close_rooms(void **state) {
  (void)state;
  jobs_close(&jobs);
  jobs_join(&jobs);
  jobs_destroy(&jobs);
  clients_destroy(&clients);
  catalog_close(&catalog);
  http_destroy(&http);
  return 0;
}

#endif
