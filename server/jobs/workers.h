// Threads that take jobs from a queue. Each worker has its own lanes, and takes jobs of one use. So quick jobs never
// wait for long ones. A worker without a job helps with the jobs of others (helpers.h).
//
// Each GPU stream has a worker, with a lane on the GPU, and a lane on the CPU for jobs that fail on the GPU. Further
// workers of the CPU stand by: they sleep until no GPU works. Those for long jobs also work beside the GPUs, on jobs
// that the placement gives to the CPU (placement.h).
//
// While another GPU works, the workers of a lost or paused GPU stand by. If no GPU works, as many workers take jobs as
// on a machine without a GPU. After a GPU's pause, one job tries the GPU.
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
  enum vx_lane_use use;
  bool on_cpu;  // takes jobs if no GPU works
  bool beside;  // takes some jobs while GPUs work
  struct lanes lanes;
  struct lock busy;  // protects the lanes; held while the worker has a job or helps
  struct queue_waiter waiter;
};

struct workers {
  int64_t count;
  struct worker *worker;  // [count]
  struct devices *devices;
  struct queue *queues;  // [VX_LANE_USES]
  struct helpers *helpers;
  atomic_llong running[VX_LANE_USES];  // jobs that run now
  struct lock lock;                    // protects `needed`, `stopping`, `used_ns`, `since_ns`
  pthread_cond_t needed;
  bool stopping;
  struct placement *placement;  // NULL: there is no GPU
  int64_t used_ns, since_ns;    // processor time of all threads except the workers beside GPUs; when it was read
};

// Opens the lanes and starts the threads. `placement`: of long jobs.
VX_WARN_UNUSED bool workers_start(struct workers *workers, const struct options *options, struct devices *devices,
                                  struct queue queues[VX_LANE_USES], struct placement *placement,
                                  struct helpers *helpers, struct error *error);
// Call it after the queues are stopped. /v1/status may still read the workers.
void workers_join(struct workers *workers);
// Closes the lanes. Networks must have released their sessions on them.
void workers_end(struct workers *workers);

// Workers that take jobs of that use now; the others stand by.
int64_t workers_at_work(const struct workers *workers, enum vx_lane_use use);
// How many of these workers take every job of that use, unlike workers beside GPUs.
int64_t workers_steady(const struct workers *workers, enum vx_lane_use use);
// Call it regularly if there are GPUs. Measures the use of processors, so that workers beside GPUs use only idle ones.
void workers_tick(struct workers *workers, int64_t now_ns);
// Runs a quick job on this thread, on the lanes of a GPU worker that sleeps. True: the caller no longer owns the job.
// False: none sleeps, or jobs wait.
VX_WARN_UNUSED bool workers_run(struct workers *workers, struct job *job);
// Call it when the state of a device has changed.
void workers_wake(struct workers *workers);

#endif
