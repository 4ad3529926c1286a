// Device memory of other processes, by CUDA's handles for interprocess communication. See vx_backend. Any thread.
#ifndef VOXELD_CUDA_BLOCK_CUH
#define VOXELD_CUDA_BLOCK_CUH

#include "kernels/cuda/base/lane.cuh"

VX_WARN_UNUSED enum vx_status cuda_open_block(struct vx_device *device, const void *handle, struct vx_block *block,
                                              struct error *error);
void cuda_close_block(struct vx_device *device, void *memory);
VX_WARN_UNUSED enum vx_status cuda_copy_block(struct vx_device *device, void *to, const void *from, size_t bytes,
                                              struct error *error);

#endif
