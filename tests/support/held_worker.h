// Callbacks of finished jobs, for unit tests. Workers call them. A job with on_done_held keeps its worker until the
// main thread, which has locked `hold`, unlocks it.
#ifndef VOXELD_TESTS_HELD_WORKER_H
#define VOXELD_TESTS_HELD_WORKER_H

#include <pthread.h>
#include <stdatomic.h>

#include "server/jobs/job.h"

static pthread_mutex_t hold = PTHREAD_MUTEX_INITIALIZER;
static atomic_int kept;      // workers that came into on_done_held
static atomic_int finished;  // jobs that are done

static void on_done(struct job *job) {
  (void)job;
  atomic_fetch_add(&finished, 1);
}

static void on_done_held(struct job *job) {
  atomic_fetch_add(&kept, 1);
  pthread_mutex_lock(&hold);
  pthread_mutex_unlock(&hold);
  on_done(job);
}

#endif
