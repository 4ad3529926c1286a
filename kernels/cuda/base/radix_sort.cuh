// Radix sorts with cub. Its templates take long to compile, so all callers share one sort for each type of keys.
#ifndef VOXELD_CUDA_RADIX_SORT_CUH
#define VOXELD_CUDA_RADIX_SORT_CUH

#include "kernels/cuda/base/run.cuh"

// Keys, each with a value. Each array: [count].
template <typename type> struct cuda_pairs {
  const type *keys;
  type *sorted_keys;
  const uint32_t *values;
  uint32_t *sorted_values;
  uint32_t count;
  int begin, end;  // the sort is by the keys' bits begin .. end - 1
};

// Enqueues a sort of the pairs by their keys. Pairs with the same key keep their order. If `temporary` is NULL, sets
// only `bytes`, the size of the temporary storage.
VX_WARN_UNUSED enum vx_status cuda_sort_pairs(const struct cuda_run *run, const struct cuda_pairs<uint32_t> &pairs,
                                              void *temporary, size_t *bytes, struct error *error);
VX_WARN_UNUSED enum vx_status cuda_sort_pairs(const struct cuda_run *run, const struct cuda_pairs<uint64_t> &pairs,
                                              void *temporary, size_t *bytes, struct error *error);

#endif
