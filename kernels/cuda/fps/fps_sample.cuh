// The kernel that takes sample after sample.
#ifndef VOXELD_CUDA_FPS_SAMPLE_CUH
#define VOXELD_CUDA_FPS_SAMPLE_CUH

#include "kernels/cuda/base/run.cuh"

// Fills in what the device can do for the kernel that samples.
VX_WARN_UNUSED enum vx_status cuda_fps_prepare_device(struct vx_device *device, struct error *error);
// Enqueues the choice of all samples.
VX_WARN_UNUSED enum vx_status cuda_fps_sample(struct cuda_run *run, struct error *error);

#endif
