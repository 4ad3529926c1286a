// The workers: threads that take jobs from a queue, each with lanes of its own. Some take only jobs that sample, so
// that other jobs never wait for those. A worker without a job helps with those of others (helpers.h).
//
// Each GPU stream has a worker, with a lane on the GPU and one on the CPU for what the GPU fails to do. If the CPU
// alone would have more workers, the others stand by: they sleep until no GPU works. Those of long jobs do not: they
// work beside the GPUs, and take the jobs that are better placed there (placement.h). The workers of a lost or paused
// GPU stand by too while another GPU works. Once no GPU works, as many workers take jobs as the CPU alone would have.
// At the end of a GPU's pause its workers wait for the job that tries it.
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
  enum vx_lane_use use;  // whose queue it takes jobs from
  bool on_cpu;           // takes jobs if no GPU works
  bool beside;           // takes some jobs even if one does
  struct lanes lanes;
  struct lock busy;  // over the lanes: held unless the worker waits
  struct queue_waiter waiter;
};

struct workers {
  int64_t count;
  struct worker *worker;  // [count]
  struct devices *devices;
  struct queue *queues;  // [VX_LANE_USES]
  struct helpers *helpers;
  atomic_llong running[VX_LANE_USES];  // jobs that run now, by the use of their lanes
  struct lock lock;                    // for standing by: of `needed` and `stopping`
  pthread_cond_t needed;
  bool stopping;
  struct placement *placement;  // NULL: there is no GPU
  int64_t used_ns, since_ns;    // processor time of all but the workers beside GPUs, and when that was
};

// Opens the lanes and starts the threads. False with a reason. `placement`: of the queue of long jobs.
VX_WARN_UNUSED bool workers_start(struct workers *workers, const struct options *options, struct devices *devices,
                                  struct queue queues[VX_LANE_USES], struct placement *placement,
                                  struct helpers *helpers, struct error *error);
// Call after the queues were closed. Waits for the threads. /v1/status may still read the workers.
void workers_join(struct workers *workers);
// Closes the lanes, once no network has a session on them.
void workers_destroy(struct workers *workers);

// How many workers take jobs of that use now; the others stand by.
int64_t workers_at_work(const struct workers *workers, enum vx_lane_use use);
// Of these, those beside GPUs that work: they do not take every job.
int64_t workers_beside(const struct workers *workers, enum vx_lane_use use);
// To be called now and then: measures what processors are used for, so that the workers beside GPUs use only what is
// left.
void workers_tick(struct workers *workers, int64_t now_ns);
// To be called when the state of a device has changed: workers that stood by for that begin to work.
void workers_wake(struct workers *workers);

#endif
