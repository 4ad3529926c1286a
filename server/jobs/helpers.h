// Helpers: workers without a job do tasks of other workers' jobs.
//
// A job on the CPU may have tasks that are independent of each other (kernels/parallel_for.h). Its worker publishes the
// tasks and wakes sleeping workers of all queues. Each helper runs tasks on its own CPU lane until none is left. The
// job's own worker runs every task that no helper has taken, so a job never waits for help to arrive.
//
// Jobs come before help. A worker helps only while no job waits in its queue. If a job arrives, the helper gives up its
// task when the task next calls `stopped`; the task then runs again from its start. At most `most` jobs and helpers run
// at once. No worker helps while a GPU works.
//
// Waking a thread takes about as long as a task, and a job may publish tasks several times in a row. So helpers, and a
// job's worker that waits for its last tasks, spin for 50 us before they sleep.
//
// Any worker. The tasks are on the stack of the job's worker. The lock is held to take or return a task, never during
// the task.
#ifndef VOXELD_HELPERS_H
#define VOXELD_HELPERS_H

#include <stdatomic.h>
#include <stdint.h>

#include "kernels/kernels.h"
#include "server/base/lock.h"
#include "server/jobs/devices.h"
#include "server/jobs/queue.h"

struct shared_tasks;

struct helpers_use {
  int64_t at_work;  // helpers, now
  // Tasks since the start: all that completed, all that helpers completed, and all that helpers gave up.
  uint64_t tasks, helped, given_up;
};

struct helpers {
  struct lock lock;
  struct shared_tasks *first;  // published tasks, by job, the oldest job first
  struct helpers_use use;
  int64_t awake;            // helpers that spin
  atomic_int shared;        // jobs with published tasks
  atomic_int publications;  // since the start; may wrap
  const struct devices *devices;
  struct queue *queues;         // [VX_LANE_USES]: where workers sleep
  const atomic_llong *running;  // [VX_LANE_USES]: jobs
  int64_t most;                 // jobs and helpers that may run at once
};

void helpers_init(struct helpers *helpers, const struct devices *devices, struct queue queues[VX_LANE_USES],
                  const atomic_llong running[VX_LANE_USES], int64_t most);
void helpers_end(struct helpers *helpers);

// Runs the tasks, as vx_caller.parallel_for says.
VX_WARN_UNUSED enum vx_status helpers_parallel_for(struct helpers *helpers, const struct vx_worker *own,
                                                   const struct vx_tasks *tasks, struct error *error);

// Helps on the lane while there are tasks and no job waits in the queue.
void helpers_help(struct helpers *helpers, struct vx_lane *lane, struct queue *queue);

// How many workers could help with a job's tasks now.
int32_t helpers_idle(struct helpers *helpers);

struct helpers_use helpers_use(struct helpers *helpers);

#endif
