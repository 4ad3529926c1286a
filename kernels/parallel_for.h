// A loop in parallel: parts of a job's work become tasks, which its own thread does together with others that are idle.
//
// The kernels say what can be done apart; the job's caller knows who is idle. What comes out does not depend on who did
// which task, nor on the order.
#ifndef VOXELD_PARALLEL_FOR_H
#define VOXELD_PARALLEL_FOR_H

#include "kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

// Does all tasks of a job whose run has that lane: with the help that its caller gives, or one after the other.
// Returns once nobody is at work on them: VX_OK, or the status of the task that the run's own worker could not do.
VX_WARN_UNUSED enum vx_status vx_parallel_for(const struct vx_job *job, struct vx_lane *lane,
                                              const struct vx_tasks *tasks, struct error *error);

// How many workers could be at work on a job's tasks now, the run's own among them: what is worth cutting. By the time
// that the tasks are there it may be another number.
int32_t vx_workers(const struct vx_job *job);

#ifdef __cplusplus
}
#endif
#endif
