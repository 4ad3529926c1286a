// The dense tensors of a voxelization: maps.h of kernels/ says what they have.
#ifndef VOXELD_CUDA_MAPS_CUH
#define VOXELD_CUDA_MAPS_CUH

#include "kernels/cuda/base/run.cuh"

// Before the gather, which writes bev_features: clears all of them.
VX_WARN_UNUSED enum vx_status cuda_clear_maps(const struct cuda_run *run, struct vx_error *error);
// After it: writes the others.
VX_WARN_UNUSED enum vx_status cuda_write_maps(const struct cuda_run *run, struct vx_error *error);

#endif
