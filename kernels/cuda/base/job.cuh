// What all jobs of a lane begin and end with. Runs on the thread that has the lane.
#ifndef VOXELD_CUDA_JOB_CUH
#define VOXELD_CUDA_JOB_CUH

#include "kernels/cuda/base/run.cuh"

typedef enum vx_status cuda_operation(struct cuda_run *run, struct error *error);

// Runs the job. If `layout` is given, the caller is not asked for memory, and the job's tensors stay on the device: in
// lane->image, which is theirs until the lane's next job, as `layout` says. The job's counts, row_counts and times are
// filled in any case. Does not trim the lane.
VX_WARN_UNUSED enum vx_status cuda_run_job(struct vx_lane *lane, struct vx_job *job, cuda_operation *operation,
                                           struct vx_layout *layout, struct error *error);

#endif
