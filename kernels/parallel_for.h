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

// Does all tasks of the job that runs on that lane: with helpers from the job's caller, or one after the other. When no
// worker is in a task any more, returns VX_OK, or the status of the task in which the run's own worker failed.
VX_WARN_UNUSED enum vx_status vx_parallel_for(const struct vx_job *job, struct vx_lane *lane,
                                              const struct vx_tasks *tasks, struct error *error);

#ifdef __cplusplus
}
#endif
#endif
