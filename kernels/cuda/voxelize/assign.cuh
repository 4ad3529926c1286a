// From numbers to rows.
#ifndef VOXELD_CUDA_ASSIGN_CUH
#define VOXELD_CUDA_ASSIGN_CUH

#include "kernels/cuda/base/run.cuh"

VX_WARN_UNUSED enum vx_status cuda_assign(const struct cuda_run *run, struct error *error);

#endif
