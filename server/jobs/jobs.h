// The room of jobs: devices, memory, a queue for each kind of lanes, workers, and the jobs that go through them.
//
// The daemon starts and ends it; any thread submits. A job that comes back holds its output alone.
#ifndef VOXELD_JOBS_H
#define VOXELD_JOBS_H

#include "server/config/options.h"
#include "server/jobs/job.h"
#include "server/jobs/loans.h"
#include "server/jobs/queue.h"
#include "server/jobs/workers.h"

struct jobs {
  struct job_means means;
  struct devices devices;
  struct buffers buffers;
  struct loans loans;
  struct queue queues[VX_LANE_USES];
  struct workers workers;
  void (*gpu_lost)(void *cls);
  void *gpu_lost_cls;
};

// Opens devices and lanes and starts the workers. `gpu_lost` is called on a worker's thread for each GPU that is lost.
// False with a reason.
VX_WARN_UNUSED bool jobs_start(struct jobs *jobs, const struct options *options, struct clients *clients,
                               struct counters *counters, void (*gpu_lost)(void *cls), void *gpu_lost_cls, char *error,
                               size_t error_size);

// Publishes the job: from the call on it is not the caller's, unless it is false: the room is closed.
VX_WARN_UNUSED bool jobs_submit(struct jobs *jobs, struct job *job);
// To be called now and then: refuses waiting jobs that are stale.
void jobs_tick(struct jobs *jobs, int64_t now_ns);
// Bytes by which answers that are read slowly should shrink; 0 while there is memory.
int64_t jobs_memory_wanted(struct jobs *jobs);

// The end, in this order. The time to drain is over: waiting jobs are refused, running ones stopped if they can be.
void jobs_hurry(struct jobs *jobs);
// Nothing more is taken.
void jobs_close(struct jobs *jobs);
int64_t jobs_running(const struct jobs *jobs);
// Waits for the workers; what is asked of the room may still be asked.
void jobs_join(struct jobs *jobs);
void jobs_destroy(struct jobs *jobs);

#endif
