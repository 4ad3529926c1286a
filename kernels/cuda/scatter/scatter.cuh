// Scatter on a GPU, and where the values of a row of features go in a dense map. Runs on the thread that has the lane.
#ifndef VOXELD_CUDA_SCATTER_CUH
#define VOXELD_CUDA_SCATTER_CUH

#include "kernels/cuda/base/run.cuh"

VX_WARN_UNUSED enum vx_status cuda_scatter(struct cuda_run *run, struct error *error);

// A map [clouds, channels, cells]. The cells are those of one cloud's grid, (z * ny + y) * nx + x.
struct cuda_planes {
  uint64_t channels, cells;
};

// The place of a row's first value. Each next value is planes.cells further on.
static __device__ inline uint64_t cuda_place_of(const struct cuda_planes &planes, uint64_t cloud, uint64_t cell) {
  return cloud * planes.channels * planes.cells + cell;
}

#endif
