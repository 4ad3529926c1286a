// A head's maps as kernels see them: in the host's memory if the device can read it, otherwise copies.
#ifndef VOXELD_CUDA_MAPS_CUH
#define VOXELD_CUDA_MAPS_CUH

#include "kernels/cuda/base/run.cuh"

struct cuda_map {
  const void *values;  // NULL: not given
  enum vx_dtype dtype;
};

static __device__ inline float cuda_map_value(const struct cuda_map &map, uint64_t index) {
  return vx_load(map.dtype, map.values, index);
}

// The number of the first largest of `count` values; 0 if none is above -inf.
static __device__ inline uint32_t cuda_first_largest(const struct cuda_map &map, uint64_t first, uint32_t count) {
  uint32_t best = 0;
  float largest = -INFINITY;
  for (uint32_t i = 0; i < count; i++) {
    float value = cuda_map_value(map, first + i);
    if (value > largest) {
      largest = value;
      best = i;
    }
  }
  return best;
}

#endif
