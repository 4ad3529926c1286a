// Helpers: workers without a job do tasks of other workers' jobs on the CPU.
//
// A job may have tasks that are independent of each other (kernels/parallel_for.h). Its worker publishes the tasks and
// wakes sleeping workers of all queues. Each helper runs tasks on its own CPU lane until none is left. The job's own
// worker runs every task that no helper has taken, so a job does not wait for help to arrive.
//
// Jobs come before help. A worker helps only while no job waits in its queue. If a job arrives, the helper gives up its
// task when the task next calls `stopped`; the task later runs again from its start. No worker helps while a
// GPU is DEVICE_WORKING.
//
// Waking a thread takes about as long as a task. So helpers, and a job's worker that waits for its last tasks, spin for
// 50 us before they sleep.
//
// Any worker. A job's worker and its helpers take the tasks in the job's slot by counting, without a lock. The worker
// closes the slot by changing the number of helpers in it from 0 to CLOSED, so no helper is in a closed slot.
#ifndef VOXELD_HELPERS_H
#define VOXELD_HELPERS_H

#include <semaphore.h>
#include <stdatomic.h>
#include <stdint.h>

#include "kernels/kernels.h"
#include "server/base/lock.h"
#include "server/jobs/devices.h"
#include "server/jobs/queue.h"

// MOST_HELPERS: helpers in a slot, plus the tasks that were given up there. MOST_SHARED: slots.
enum { MOST_HELPERS = 64, MOST_SHARED = 32 };

// The tasks of one job, from their start until all are done. If all slots are taken, a job has no helpers.
struct shared_tasks {
  atomic_bool taken;                      // by a job
  atomic_int helpers;                     // in the slot, or CLOSED
  atomic_int begun;                       // tasks that were taken at least once; may exceed tasks->count
  atomic_int given_up;                    // tasks in `again`; grows with the lock held
  int32_t again[MOST_HELPERS], repeated;  // given-up tasks; how many of them the job's worker has taken
  sem_t changed;                          // a helper has left
  const struct vx_worker *own;
  const struct vx_tasks *tasks;
};

struct helpers {
  struct shared_tasks shared[MOST_SHARED];
  // Tasks since the start: completed by anyone, completed by helpers, and given up by helpers.
  atomic_ullong tasks, helped, given_up;
  atomic_int at_work;       // helpers in slots
  atomic_int awake;         // helpers that spin
  atomic_int open;          // slots
  atomic_int publications;  // since the start; wraps
  const struct devices *devices;
  struct queue *queues;         // [VX_LANE_USES]: where workers sleep
  const atomic_llong *running;  // [VX_LANE_USES]: jobs
  int64_t most;                 // jobs and helpers that may run at once
  struct lock lock;             // while a helper gives up a task
};

void helpers_init(struct helpers *helpers, const struct devices *devices, struct queue queues[VX_LANE_USES],
                  const atomic_llong running[VX_LANE_USES], int64_t most);
void helpers_end(struct helpers *helpers);

// See vx_caller.parallel_for.
VX_WARN_UNUSED enum vx_status helpers_parallel_for(void *job, const struct vx_worker *own, const struct vx_tasks *tasks,
                                                   struct error *error);

// Helps on the lane while there are tasks and no job waits in the queue.
void helpers_help(struct helpers *helpers, struct vx_lane *lane, struct queue *queue);

// How many workers could help a job now.
int32_t helpers_idle(const struct helpers *helpers);

#endif
