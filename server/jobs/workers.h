// The workers: threads that take jobs from a queue. Each worker has its own lanes, and takes jobs of one use. So quick
// jobs never wait for long ones. A worker without a job helps with the jobs of others (helpers.h).
//
// Each GPU stream has a worker. That worker has a lane on the GPU, and a lane on the CPU for jobs that the GPU fails.
// Further workers of the CPU stand by: they sleep until no GPU works. Only the further workers of long jobs work beside
// the GPUs. They take the jobs that the placement gives to the CPU (placement.h).
//
// While another GPU works, the workers of a lost or paused GPU stand by. If no GPU works, as many workers take jobs as
// on a machine without a GPU. After a GPU's pause, one job tries the GPU; its other workers stand by.
#ifndef VOXELD_WORKERS_H
#define VOXELD_WORKERS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "kernels/kernels.h"
#include "server/base/lock.h"
#include "server/config/options.h"
#include "server/jobs/helpers.h"
#include "server/jobs/queue.h"
#include "server/jobs/run.h"

struct workers;

struct worker {
  pthread_t thread;
  struct workers *workers;
  enum vx_lane_use use;  // of its queue
  bool on_cpu;           // takes jobs if no GPU works
  bool beside;           // takes some jobs while GPUs work
  struct lanes lanes;
  struct lock busy;  // protects the lanes; the worker holds it while it has a job or helps
  struct queue_waiter waiter;
};

struct workers {
  int64_t count;
  struct worker *worker;  // [count]
  struct devices *devices;
  struct queue *queues;  // [VX_LANE_USES]
  struct helpers *helpers;
  atomic_llong running[VX_LANE_USES];  // jobs that run now, by the use of their lanes
  struct lock lock;                    // protects `needed`, `stopping`, `used_ns`, `since_ns`
  pthread_cond_t needed;
  bool stopping;
  struct placement *placement;  // NULL: there is no GPU
  int64_t used_ns, since_ns;    // processor time of all threads except the workers beside GPUs; when it was read
};

// Opens the lanes and starts the threads. `placement` is the placement of long jobs. False with a reason.
VX_WARN_UNUSED bool workers_start(struct workers *workers, const struct options *options, struct devices *devices,
                                  struct queue queues[VX_LANE_USES], struct placement *placement,
                                  struct helpers *helpers, struct error *error);
// Waits for the threads to end. Call it after the queues are stopped. /v1/status may still read the workers.
void workers_join(struct workers *workers);
// Closes the lanes. Networks must have released their sessions on them.
void workers_end(struct workers *workers);

// How many workers of that use take jobs now. The others stand by.
int64_t workers_at_work(const struct workers *workers, enum vx_lane_use use);
// How many of the workers at work take every job of that use, unlike workers beside GPUs.
int64_t workers_steady(const struct workers *workers, enum vx_lane_use use);
// Call it regularly if there are GPUs. Measures the use of processors, so that workers beside GPUs use only idle ones.
void workers_tick(struct workers *workers, int64_t now_ns);
// Runs a quick job on this thread, on the lanes of a sleeping worker of a GPU. True: as after jobs_submit. False: no
// such worker sleeps, or jobs wait.
VX_WARN_UNUSED bool workers_run(struct workers *workers, struct job *job);
// Call it when the state of a device has changed: wakes the workers that now take jobs.
void workers_wake(struct workers *workers);

#endif
