// Small jobs: those that take less time than to wake a worker for them. The I/O thread that has received one runs it
// itself, on a CPU lane of its own for the moment. The bytes are the same as a worker's, on whatever device.
//
// A job is small if its time follows from its points and its output alone, and both are few: most take 5 to 50 us, and
// so long the I/O thread is away from its other connections. It waits in no queue and takes no turn.
//
// Any thread. The lock is held to take a lane and to give it back.
#ifndef VOXELD_SMALL_H
#define VOXELD_SMALL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "server/base/lock.h"
#include "server/config/options.h"
#include "server/jobs/job.h"

enum { SMALL_POINT_BYTES = 2048 };  // of scratch that a lane keeps, at most, for each of the most points of a job

struct small {
  struct lock lock;
  int64_t most_points;    // of a small job; 0: none is
  struct vx_lane **lane;  // [count], those that are free first
  int64_t count, free;
  atomic_ullong run;  // jobs
};

// Opens as many lanes as a listener has I/O threads. If none is free, a job goes to the workers. False with a reason.
VX_WARN_UNUSED bool small_start(struct small *small, const struct options *options, const struct devices *devices,
                                struct error *error);
void small_end(struct small *small);

// Runs the job if it is small and a lane is free: then it has its result, and `done` is not called. Otherwise it is as
// before.
VX_WARN_UNUSED bool small_run(struct small *small, struct job *job);

#endif
