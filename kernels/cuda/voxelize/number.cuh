// From cells to numbers.
#ifndef VOXELD_CUDA_NUMBER_CUH
#define VOXELD_CUDA_NUMBER_CUH

#include "kernels/cuda/base/run.cuh"

VX_WARN_UNUSED enum vx_status cuda_number(const struct cuda_run *run, struct error *error);

#endif
