// The block filter.
#ifndef VOXELD_CUDA_FILTER_CUH
#define VOXELD_CUDA_FILTER_CUH

#include "kernels/cuda/base/run.cuh"

VX_WARN_UNUSED enum vx_status cuda_filter(const struct cuda_run *run, struct error *error);
// Bytes of temporary storage that the filter needs.
VX_WARN_UNUSED enum vx_status cuda_measure_filter(const struct cuda_run *run, size_t *bytes, struct error *error);

#endif
