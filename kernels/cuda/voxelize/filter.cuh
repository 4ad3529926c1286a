// The block filter.
#ifndef VOXELD_CUDA_FILTER_CUH
#define VOXELD_CUDA_FILTER_CUH

#include "kernels/cuda/base/run.cuh"

VX_WARN_UNUSED enum vx_status cuda_filter(const struct cuda_run *run, struct error *error);
// Before the job's memory is taken: fills run->filter, but for its arrays, and run->filter_cub_bytes.
VX_WARN_UNUSED enum vx_status cuda_plan_filter(struct cuda_run *run, struct error *error);

#endif
