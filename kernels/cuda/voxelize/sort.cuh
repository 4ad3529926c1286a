// Sorting of point indices within a warp, and the sum of a column over listed points.
#ifndef VOXELD_CUDA_SORT_CUH
#define VOXELD_CUDA_SORT_CUH

#include "kernels/cuda/base/run.cuh"

// Sorts the values of `width` neighbouring threads, one per thread (a bitonic sort).
template <int width> static __device__ uint32_t sort_values(uint32_t mask, uint32_t value) {
  uint32_t lane = threadIdx.x % width;
#pragma unroll
  for (int k = 2; k <= width; k *= 2) {
#pragma unroll
    for (int j = k / 2; j > 0; j /= 2) {
      uint32_t other = __shfl_xor_sync(mask, value, j, width);
      bool lower = ((lane & k) == 0) == ((lane & j) == 0);
      value = lower ? min(value, other) : max(value, other);
    }
  }
  return value;
}

// Called by a whole warp. Returns the 32 lowest values of two sorted sequences, one value per thread, sorted.
static __device__ inline uint32_t merge_values(uint32_t value, uint32_t other) {
  uint32_t lane = threadIdx.x % 32;
  value = min(value, __shfl_sync(~0u, other, 31 - lane));
#pragma unroll
  for (int j = 16; j > 0; j /= 2) {
    uint32_t partner = __shfl_xor_sync(~0u, value, j);
    value = (lane & j) == 0 ? min(value, partner) : max(value, partner);
  }
  return value;
}

template <int threads> static __device__ void sync_threads() {
  if (threads == 32)
    __syncwarp();
  else
    __syncthreads();
}

// Whether the values of each `width` neighbouring threads are sorted, as they usually are.
template <int width> static __device__ bool in_order(uint32_t mask, uint32_t value) {
  return __all_sync(mask, __shfl_up_sync(mask, value, 1, width) <= value);
}

// Called by a whole warp. Returns the 32 lowest items, sorted, of the chunks of 32 at `begin`, `begin + step`, and so
// on. Not inlined, because its registers would add to those of its callers.
static __device__ __attribute__((noinline)) uint32_t lowest_of(const uint32_t *list, uint32_t count, uint32_t begin,
                                                               uint32_t step) {
  enum { AHEAD = 4 };
  uint32_t lane = threadIdx.x % 32, lowest = CUDA_NO_POINT, next[AHEAD];
#pragma unroll
  for (int k = 0; k < AHEAD; k++) {
    uint64_t place = begin + (uint64_t)k * step + lane;
    next[k] = place < count ? list[place] : CUDA_NO_POINT;
  }
  for (uint64_t at = begin; at < count; at += step) {
    uint32_t value = next[0], bound = __shfl_sync(~0u, lowest, 31);
#pragma unroll
    for (int k = 1; k < AHEAD; k++) next[k - 1] = next[k];
    uint64_t place = at + (uint64_t)AHEAD * step + lane;
    next[AHEAD - 1] = place < count ? list[place] : CUDA_NO_POINT;
    if (__any_sync(~0u, value < bound)) {
      if (!in_order<32>(~0u, value)) value = sort_values<32>(~0u, value);
      lowest = at == begin ? value : merge_values(lowest, value);
    }
  }
  return lowest;
}

// Called by a whole warp. Sorts `items` values of each thread; thread l gets the values from l * items on.
template <int items> static __device__ void sort_registers(uint32_t values[items]) {
  uint32_t lane = threadIdx.x % 32;
#pragma unroll
  for (int size = 2; size <= 32 * items; size *= 2) {
#pragma unroll
    for (int j = size / 2; j > 0; j /= 2) {
#pragma unroll
      for (int k = 0; k < items; k++) {
        bool up = ((lane * items + k) & size) == 0;
        if (j >= items) {
          uint32_t other = __shfl_xor_sync(~0u, values[k], j / items);
          bool lower = (lane & (j / items)) == 0;
          values[k] = up == lower ? min(values[k], other) : max(values[k], other);
        } else if ((k & j) == 0) {
          uint32_t low = min(values[k], values[k | j]), high = max(values[k], values[k | j]);
          values[k] = up ? low : high;
          values[k | j] = up ? high : low;
        }
      }
    }
  }
}

// Called by a whole warp. Sorts `count` items of a list, up to 32 * items, into `sorted`.
template <int items> static __device__ void sort_in_warp(const uint32_t *list, uint32_t count, uint32_t *sorted) {
  uint32_t lane = threadIdx.x % 32, values[items];
#pragma unroll
  for (int k = 0; k < items; k++) values[k] = k * 32 + lane < count ? list[k * 32 + lane] : CUDA_NO_POINT;
  bool ordered = true;
#pragma unroll
  for (int k = 0; k < items; k++) {
    uint32_t before = __shfl_up_sync(~0u, values[k], 1), end = __shfl_sync(~0u, values[k == 0 ? 0 : k - 1], 31);
    before = lane > 0 ? before : k > 0 ? end : 0;
    ordered = ordered && before <= values[k];
  }
  if (__all_sync(~0u, ordered)) {
#pragma unroll
    for (int k = 0; k < items; k++)
      if (k * 32 + lane < count) sorted[k * 32 + lane] = values[k];
    return;
  }
  sort_registers<items>(values);
#pragma unroll
  for (int k = 0; k < items; k++)
    if (lane * items + k < count) sorted[lane * items + k] = values[k];
}

// The sum of one column over `count` >= 1 points in sequence: the listed points, or if `list` is NULL, the first
// points. Fetches `ahead` points at a time.
template <int ahead>
static __device__ float sum_column(const float *points, uint32_t columns, const uint32_t *list, uint32_t count,
                                   uint32_t column) {
  float sum = points[(uint64_t)(list ? list[0] : 0) * columns + column];
  for (uint32_t k = 1; k < count; k += ahead) {
    float values[ahead];
#pragma unroll
    for (int i = 0; i < ahead; i++)
      if (k + i < count) values[i] = points[(uint64_t)(list ? list[k + i] : k + i) * columns + column];
#pragma unroll
    for (int i = 0; i < ahead; i++)
      if (k + i < count) sum += values[i];
  }
  return sum;
}

#endif
