// The dense map of a voxelization's features.
#ifndef VOXELD_CUDA_BEV_CUH
#define VOXELD_CUDA_BEV_CUH

#include "kernels/cuda/base/run.cuh"

// When the rows' features are there: makes bev_features.
VX_WARN_UNUSED enum vx_status cuda_write_bev(const struct cuda_run *run, struct error *error);

#endif
