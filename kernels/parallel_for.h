// A parallel loop: parts of a job's work become tasks, which the job's own thread and idle workers do together.
//
// The kernels decide what can run in parallel; the job's caller knows which workers are idle. The result does not
// depend on who did which task, or on the order.
#ifndef VOXELD_PARALLEL_FOR_H
#define VOXELD_PARALLEL_FOR_H

#include "kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

// Does all tasks of the job that runs on that lane, with help from the job's caller or one after the other. Returns
// when no worker is on them any more: VX_OK, or the status of the task that the run's own worker failed.
VX_WARN_UNUSED enum vx_status vx_parallel_for(const struct vx_job *job, struct vx_lane *lane,
                                              const struct vx_tasks *tasks, struct error *error);

// How many workers could work on the job's tasks now, the run's own included. Work is cut accordingly. The number may
// have changed by the time the tasks exist.
int32_t vx_workers(const struct vx_job *job);

#ifdef __cplusplus
}
#endif
#endif
