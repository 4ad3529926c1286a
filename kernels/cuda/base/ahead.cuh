// Points that reach the device ahead of their job, while the rest of them is still on its way to the host. The lane has
// a block for them; the job's kernels read them there and the others where they lie (bring.cuh).
#ifndef VOXELD_CUDA_AHEAD_CUH
#define VOXELD_CUDA_AHEAD_CUH

#include "kernels/cuda/base/run.cuh"

// vx_backend.bring and vx_backend.settle.
VX_WARN_UNUSED enum vx_status cuda_bring(struct vx_lane *lane, const void *points, size_t bytes, size_t from, size_t to,
                                         struct vx_error *error);
void cuda_settle(struct vx_lane *lane);

// Fills run->brought, of a job about points whose shape the run has.
void cuda_find_brought(struct cuda_run *run);

#endif
