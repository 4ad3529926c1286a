// A transform on a GPU. Runs on the thread that has the lane.
#ifndef VOXELD_CUDA_TRANSFORM_CUH
#define VOXELD_CUDA_TRANSFORM_CUH

#include "kernels/cuda/base/run.cuh"

VX_WARN_UNUSED enum vx_status cuda_transform(struct cuda_run *run, struct error *error);

#endif
