// The room of jobs: devices, memory, a queue for each kind of lanes, workers, and the jobs that go through them.
//
// The daemon starts and ends it; any thread submits. A job that comes back holds nothing but its output.
#ifndef VOXELD_JOBS_H
#define VOXELD_JOBS_H

#include "server/config/options.h"
#include "server/jobs/helpers.h"
#include "server/jobs/job.h"
#include "server/jobs/placement.h"
#include "server/jobs/queue.h"
#include "server/jobs/regions.h"
#include "server/jobs/small.h"
#include "server/jobs/uploads.h"
#include "server/jobs/workers.h"

struct jobs {
  struct job_services services;
  struct devices devices;
  struct buffers buffers;
  struct coders coders;
  struct regions regions;
  struct streams streams;
  struct uploads uploads;
  struct queue queues[VX_LANE_USES];
  struct placement placement;  // of long jobs, if there are GPUs
  struct helpers helpers;
  struct small small;
  struct workers workers;
  void (*gpu_lost)(void *cls);
  void *gpu_lost_cls;
};

// Opens devices and lanes and starts the workers. Uploads that come to the watcher's connections may be preempted for
// jobs. `gpu_lost` is called for each GPU that is lost, on the worker's
// thread that lost it. False with a reason.
VX_WARN_UNUSED bool jobs_start(struct jobs *jobs, const struct options *options, struct clients *clients,
                               struct counters *counters, struct watcher *watcher, void (*gpu_lost)(void *cls),
                               void *gpu_lost_cls, struct error *error);

// Runs the job at once, on this thread, if it is small (small.h). True: it has its result, and `done` is not called.
// False: it is to be submitted.
VX_WARN_UNUSED bool jobs_run_small(struct jobs *jobs, struct job *job);
// Submits a job to its queue. True: the job belongs to the room until its `done`. False: the room is closed, and the
// job stays the caller's.
VX_WARN_UNUSED bool jobs_submit(struct jobs *jobs, struct job *job);
// To be called now and then: refuses waiting jobs that are stale, and hands out jobs that may run by now.
void jobs_tick(struct jobs *jobs, int64_t now_ns);

// Workers that take jobs of that use now. Those of the CPU beside GPUs take few jobs, so they count while they run one.
int64_t jobs_workers(struct jobs *jobs, enum vx_lane_use use);
// Bytes by which answers that are read slowly should shrink; 0 while there is memory.
int64_t jobs_memory_wanted(struct jobs *jobs);

// The end consists of the following calls, in this order.
//
// Called if the time to drain is over: refuses waiting jobs, and stops running ones.
void jobs_hurry(struct jobs *jobs);
// Takes no more jobs. The workers end once the queues are empty.
void jobs_close(struct jobs *jobs);
// Waits for the workers to end. The room may still be read, by /v1/status for one.
void jobs_join(struct jobs *jobs);
void jobs_destroy(struct jobs *jobs);

#endif
