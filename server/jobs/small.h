// Small jobs: those that take less time than to wake a worker for them. The I/O thread that has received one runs it
// itself, on a CPU lane of its own for the moment. The bytes are the same as a worker's, on whatever device.
//
// A job is small if its time follows from its points and its output alone, and both are few: so an I/O thread is away
// from its other connections no longer than a page of the service takes. It waits in no queue and takes no turn.
//
// Any thread. The lock is held to take a lane and to give it back.
#ifndef VOXELD_SMALL_H
#define VOXELD_SMALL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "server/config/options.h"
#include "server/jobs/job.h"

struct small {
  pthread_mutex_t lock;
  struct devices *devices;
  int64_t most_points;    // of a small job; 0: none is
  struct vx_lane **lane;  // [count], those that are free first
  int64_t count, free;
  atomic_ullong ran;
};

// Opens the lanes. False with a reason.
VX_WARN_UNUSED bool small_start(struct small *small, const struct options *options, struct devices *devices,
                                char *error, size_t error_size);
void small_end(struct small *small);

// Runs the job if it is small and a lane is free: then it has its result, and `done` is not called. Otherwise it is as
// before.
VX_WARN_UNUSED bool small_run(struct small *small, struct job *job);

#endif
