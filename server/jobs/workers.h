// The workers: threads that take jobs from a queue, each with a lane of its own. Some do nothing but sample, so that
// the others never wait for that.
//
// With GPUs there is one for each stream, with a lane there and one on the CPU for what the GPU fails to do. As many
// more as the CPU alone would have stand by, and so do those of a lost GPU while another works; when the last GPU is
// lost, as many take jobs as the CPU alone would have.
#ifndef VOXELD_WORKERS_H
#define VOXELD_WORKERS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "kernels/kernels.h"
#include "server/config/options.h"
#include "server/jobs/queue.h"
#include "server/jobs/run.h"

struct workers;

struct worker {
  pthread_t thread;
  struct workers *workers;
  enum vx_lane_use use;  // whose queue it takes jobs from
  bool on_cpu;           // takes jobs if no GPU works
  struct lanes lanes;
  struct queue_waiter waiter;
};

struct workers {
  int64_t count;
  struct worker *worker;  // [count]
  struct devices *devices;
  struct queue *queues;                // [VX_LANE_USES]
  atomic_llong running[VX_LANE_USES];  // jobs on a lane now, by what it is for
  pthread_mutex_t lock;                // of standing by
  pthread_cond_t needed;
  bool stopping;
};

// Opens the lanes and starts the threads. False with a reason.
VX_WARN_UNUSED bool workers_start(struct workers *workers, const struct options *options, struct devices *devices,
                                  struct queue queues[VX_LANE_USES], char *error, size_t error_size);
// Waits for the threads after the queue was closed, and closes the lanes; /v1/status may still look at the workers.
void workers_join(struct workers *workers);
void workers_destroy(struct workers *workers);

// How many take jobs of that use now; the others stand by.
int64_t workers_at_work(const struct workers *workers, enum vx_lane_use use);
// To be called when a device is lost: those that stood by for that begin to work.
void workers_wake(struct workers *workers);

#endif
