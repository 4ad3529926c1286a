// The room of jobs: devices, memory, a queue for each kind of lanes, and workers.
//
// The daemon starts and ends the room; any thread submits jobs. A finished job holds nothing but its output.
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
  struct lock latest;  // held while a job with `latest` gets its slot and joins a queue, so that others find it there
  void (*gpu_lost)(void *cls);
  void *gpu_lost_cls;
};

// Opens devices and lanes and starts the workers. Jobs may preempt uploads on the watcher's connections. A worker that
// loses its GPU calls `gpu_lost`.
VX_WARN_UNUSED bool jobs_start(struct jobs *jobs, const struct options *options, struct clients *clients,
                               struct counters *counters, struct watcher *watcher, void (*gpu_lost)(void *cls),
                               void *gpu_lost_cls, struct error *error);

// True: the room owns the job until it calls `done`. False with the job's error: the room is stopped, or there is no
// slot for a job with `latest`. Then the caller keeps the job.
VX_WARN_UNUSED bool jobs_submit(struct jobs *jobs, struct job *job);
// Call it regularly: refuses stale jobs that wait, and starts jobs that may run by now.
void jobs_tick(struct jobs *jobs, int64_t now_ns);

// Workers that take jobs of this use now. While GPUs work, a worker of the CPU counts only during such a job.
int64_t jobs_workers(struct jobs *jobs, enum vx_lane_use use);
// Bytes of memory to free by ending slow answers; 0 unless memory runs short.
int64_t jobs_memory_wanted(struct jobs *jobs);

// ---- the end: in this order -----------------------------------------------------------------------------------------

// When the time to drain is over: refuses waiting jobs, and stops running ones.
void jobs_hurry(struct jobs *jobs);
// Takes no more jobs. The workers end once the queues are empty.
void jobs_stop(struct jobs *jobs);
// Waits for the workers to end. /v1/status may still read the room.
void jobs_join(struct jobs *jobs);
void jobs_end(struct jobs *jobs);

#endif
