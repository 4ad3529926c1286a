// The room of jobs, as the daemon opens it, with one client, for a program of unit tests. Main thread.
#ifndef VOXELD_TESTS_JOB_ROOM_H
#define VOXELD_TESTS_JOB_ROOM_H

#include <string.h>

#include "server/jobs/jobs.h"

static struct jobs jobs;
static struct clients clients;
static struct client *client;
static struct counters counters;
static struct watcher watcher = {.lock = LOCK_INITIALIZER};  // without connections
static atomic_bool gone;                                     // true: the client of the jobs is gone

static void on_gpu_lost(void *cls) { (void)cls; }

// Opens the room on the CPU. The options must outlive the room.
static void open_job_room(struct options *options) {
  struct error error;
  const int64_t limits[SHARES] = {[SHARE_JOBS] = options->queue_depth,
                                  [SHARE_LONG_JOBS] = options->queue_depth,
                                  [SHARE_BYTES] = options->memory_budget_bytes,
                                  [SHARE_QUICK_BYTES] = options->memory_budget_bytes,
                                  [SHARE_LONG_BYTES] = options->memory_budget_bytes / 2};
  options->backend = BACKEND_CPU;
  strcpy(options->devices, "all");
  memset(&jobs, 0, sizeof jobs);
  atomic_store(&gone, false);
  assert_true(clients_init(&clients, 16, limits));
  client = clients_acquire(&clients, "", "192.0.2.1");
  if (!jobs_start(&jobs, options, &clients, &counters, &watcher, on_gpu_lost, NULL, &error)) fail_msg("%s", error.text);
}

// Closes the room, as a teardown of cmocka. All jobs must have ended and released what they held.
static int close_job_room(void **state) {
  (void)state;
  jobs_stop(&jobs);
  jobs_join(&jobs);
  assert_int_equal(jobs.helpers.at_work, 0);
  assert_int_equal(jobs.helpers.open, 0);
  assert_int_equal(jobs.buffers.in_use, 0);
  struct clients_use use = clients_use(&clients);
  for (int share = 0; share < SHARES; share++) assert_int_equal(use.held[share], 0);
  clients_release(&clients, client);
  jobs_end(&jobs);
  clients_end(&clients);
  return 0;
}

#endif
