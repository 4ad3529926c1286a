// From points to cells.
#ifndef VOXELD_CUDA_INSERT_CUH
#define VOXELD_CUDA_INSERT_CUH

#include "kernels/cuda/base/run.cuh"

VX_WARN_UNUSED enum vx_status cuda_insert(const struct cuda_run *run, struct error *error);

#endif
