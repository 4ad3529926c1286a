// From rows to tensors.
#ifndef VOXELD_CUDA_GATHER_CUH
#define VOXELD_CUDA_GATHER_CUH

#include "kernels/cuda/base/run.cuh"

// Writes the image. `publish`: also tells the host the sizes.
VX_WARN_UNUSED enum vx_status cuda_gather(const struct cuda_run *run, bool publish, struct error *error);

#endif
