// The fates of a lone cloud's points, section by section.
#ifndef VOXELD_CUDA_VOXELIZE_SECTIONS_CUH
#define VOXELD_CUDA_VOXELIZE_SECTIONS_CUH

#include "kernels/cuda/base/run.cuh"

// Enqueues the counting, if the job has sections: after the block filter and before the tally is published.
VX_WARN_UNUSED enum vx_status cuda_count_sections(const struct cuda_run *run, struct error *error);

#endif
