// The ways into and out of the device's memory, as kernels. Each function only enqueues work.
#ifndef VOXELD_CUDA_TRANSFER_CUH
#define VOXELD_CUDA_TRANSFER_CUH

#include "kernels/cuda/base/run.cuh"

// `output`: host memory as the device sees it.
VX_WARN_UNUSED enum vx_status cuda_send(const struct cuda_run *run, void *output, size_t bytes, struct vx_error *error);
// Removes what the job left in the lane's table and counters.
VX_WARN_UNUSED enum vx_status cuda_clean(const struct cuda_run *run, struct vx_error *error);
// Copies `words` words. `from`: host memory as the device sees it.
VX_WARN_UNUSED enum vx_status cuda_fetch(const struct cuda_run *run, const void *from, void *to, uint32_t words,
                                         struct vx_error *error);
VX_WARN_UNUSED enum vx_status cuda_fetch_clouds(const struct cuda_run *run, struct vx_error *error);

#endif
