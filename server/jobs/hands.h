// Hands: workers without a job help with those of others, task by task.
//
// A job that runs on the CPU may come to tasks that can be done apart (kernels/parallel_for.h). Its worker then shows
// them to all and calls workers that sleep, of any queue. Each takes a task, does it on its own CPU lane, takes the
// next, and goes back to its queue once there is none. A job never waits for help: its own worker does all that no
// helper has taken. The tasks stay on the stack of that worker, which leaves them last.
//
// Help is for what nobody else wants done. A worker helps only while no job waits in its queue, and gives up a task
// that asks `stopped` once one comes; the task is then done again. No helper takes a task while jobs and helpers
// together are `workers` or more; jobs that come meanwhile wait for none of them. While a GPU works, its workers wait
// for the GPU's jobs, so nobody helps.
//
// A job may come to tasks several times, soon after each other, and to wake a processor takes about as long as to do a
// task. So who has helped waits awake for a moment before it goes back to its queue, and so does a job's worker for
// the last tasks.
//
// Any worker. The lock is held to take a task and to give it back, never while one is done.
#ifndef VOXELD_HANDS_H
#define VOXELD_HANDS_H

#include <stdatomic.h>
#include <stdint.h>

#include "kernels/kernels.h"
#include "server/base/lock.h"
#include "server/jobs/devices.h"
#include "server/jobs/queue.h"

struct shared_tasks;

struct hands_use {
  int64_t at_work;  // helpers, now
  // Since the start: tasks that were done of jobs with several, those of them that helpers did, and those that helpers
  // gave up.
  uint64_t tasks, helped, given_up;
};

struct hands {
  struct lock lock;
  struct shared_tasks *first;  // jobs whose tasks are shown, the oldest first
  struct hands_use use;
  int64_t awake;         // those who have helped and wait awake
  atomic_uint showings;  // how often tasks were shown
  const struct devices *devices;
  struct queue *queues;         // [VX_LANE_USES]: where workers can be called
  const atomic_llong *running;  // [VX_LANE_USES]: jobs
  int64_t most;                 // jobs and helpers at work, up to which a worker takes a task to help
};

void hands_init(struct hands *hands, const struct devices *devices, struct queue queues[VX_LANE_USES],
                const atomic_llong running[VX_LANE_USES], int64_t most);
void hands_destroy(struct hands *hands);

// Has the tasks done, as vx_caller.parallel_for says.
VX_WARN_UNUSED enum vx_status hands_parallel_for(struct hands *hands, const struct vx_worker *own,
                                                 const struct vx_tasks *tasks, struct error *error);

// Helps on the lane while there are tasks and no job waits in the queue.
void hands_help(struct hands *hands, struct vx_lane *lane, struct queue *queue);

// How many hands could be at work on a job's tasks now, as vx_caller.workers says.
int32_t hands_count(struct hands *hands);

struct hands_use hands_use(struct hands *hands);

#endif
