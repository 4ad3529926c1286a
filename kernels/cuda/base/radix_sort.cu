// See radix_sort.cuh.
#include "kernels/cuda/base/radix_sort.cuh"

#include <cub/device/device_radix_sort.cuh>

template <typename type>
static enum vx_status sort_pairs(const struct cuda_run *run, const struct cuda_pairs<type> &pairs, void *temporary,
                                 size_t *bytes, struct error *error) {
  return cuda_check(cub::DeviceRadixSort::SortPairs(temporary, *bytes, pairs.keys, pairs.sorted_keys, pairs.values,
                                                    pairs.sorted_values, (int64_t)pairs.count, pairs.begin, pairs.end,
                                                    run->stream),
                    "cub::DeviceRadixSort", error);
}

enum vx_status cuda_sort_pairs(const struct cuda_run *run, const struct cuda_pairs<uint32_t> &pairs, void *temporary,
                               size_t *bytes, struct error *error) {
  return sort_pairs(run, pairs, temporary, bytes, error);
}

enum vx_status cuda_sort_pairs(const struct cuda_run *run, const struct cuda_pairs<uint64_t> &pairs, void *temporary,
                               size_t *bytes, struct error *error) {
  return sort_pairs(run, pairs, temporary, bytes, error);
}
