// A parallel loop: the job's own thread and idle workers together do tasks, which are parts of the job's work. The
// result does not depend on who does which task, or on the order.
#ifndef VOXELD_PARALLEL_FOR_H
#define VOXELD_PARALLEL_FOR_H

#include "kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

// Does all tasks of the job that runs on `lane`: with helpers from the job's caller, or one after the other. Returns
// once no worker is in a task any more: VX_OK, or the status of the task that failed on the job's own thread.
VX_WARN_UNUSED enum vx_status vx_parallel_for(const struct vx_job *job, struct vx_lane *lane,
                                              const struct vx_tasks *tasks, struct error *error);

#ifdef __cplusplus
}
#endif
#endif
