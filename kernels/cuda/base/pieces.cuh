// Copies small pieces of a block of GPU memory to the host: see vx_backend. Runs on the thread that has the lane.
#ifndef VOXELD_CUDA_PIECES_CUH
#define VOXELD_CUDA_PIECES_CUH

#include "kernels/cuda/base/lane.cuh"

VX_WARN_UNUSED enum vx_status cuda_sample_block(struct vx_lane *lane, const void *memory, const struct vx_piece *piece,
                                                int32_t count, struct error *error);
VX_WARN_UNUSED enum vx_status cuda_await_block(struct vx_lane *lane, const char **out, struct error *error);

#endif
