// Small jobs: so short that waking a worker would delay them much. The I/O thread that received a small job runs it,
// and serves no other connection meanwhile.
//
// A job is small if only its points and its output decide its time, and both are few. It then runs on a CPU lane,
// mostly for 5 to 50 us. While probably no other request waits, a job is also small if a GPU takes up to about 0.1 ms
// for it. It then runs on the lanes of a GPU worker that sleeps. Any thread: a thread that takes a lane has it to
// itself.
#ifndef VOXELD_SMALL_H
#define VOXELD_SMALL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "server/config/options.h"
#include "server/jobs/job.h"
#include "server/jobs/workers.h"

enum { SMALL_POINT_BYTES = 2048 };  // maximum scratch of a lane for each of `most_points`

struct small_lane {
  atomic_bool taken;
  struct vx_lane *lane;
};

struct small {
  int64_t most_points;      // of a small job; 0: no job is small
  struct small_lane *lane;  // [count]
  int64_t count;
  atomic_ullong run;  // jobs, since the start
};

// Opens as many lanes as a listener has I/O threads.
VX_WARN_UNUSED bool small_start(struct small *small, const struct options *options, const struct devices *devices,
                                struct error *error);
void small_end(struct small *small);

// Runs the job if it is small and a lane is free. True: the job has its result, and `done` is not called. False: it is
// unchanged.
VX_WARN_UNUSED bool small_run(struct small *small, struct job *job);
// Call it while probably no other request waits. Runs the job on a GPU if it is small there and a GPU worker sleeps.
// True: as after jobs_submit.
VX_WARN_UNUSED bool small_run_on_gpu(struct small *small, struct workers *workers, struct job *job);

#endif
