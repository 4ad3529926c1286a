// The weights of an encoder on the device. Runs on the thread that has the lane.
#ifndef VOXELD_CUDA_WEIGHTS_CUH
#define VOXELD_CUDA_WEIGHTS_CUH

#include "kernels/cuda/base/run.cuh"

// Fills run->weights: of each layer its weight, then its bias, one after the other. The lane keeps them for its next
// jobs. Enqueues a copy if they are not those of the lane's last encoder.
VX_WARN_UNUSED enum vx_status cuda_bring_weights(struct cuda_run *run, struct error *error);

#endif
