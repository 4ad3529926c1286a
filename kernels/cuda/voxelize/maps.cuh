// The dense tensors of a voxelization: maps.h of kernels/ says what they have.
#ifndef VOXELD_CUDA_MAPS_CUH
#define VOXELD_CUDA_MAPS_CUH

#include "kernels/cuda/base/run.cuh"

// Writes all of them but bev_features.
VX_WARN_UNUSED enum vx_status cuda_write_maps(const struct cuda_run *run, struct error *error);

#endif
