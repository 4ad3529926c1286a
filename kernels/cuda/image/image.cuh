// Range images on a GPU. kernels/range_image.h defines the operation. Runs on the thread that has the lane.
#ifndef VOXELD_CUDA_IMAGE_CUH
#define VOXELD_CUDA_IMAGE_CUH

#include "kernels/cuda/base/run.cuh"

VX_WARN_UNUSED enum vx_status cuda_range_image(struct cuda_run *run, struct error *error);

#endif
