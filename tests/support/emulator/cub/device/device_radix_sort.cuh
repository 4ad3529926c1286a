// Stands in for cub's header of this name.
#ifndef VOXELD_EMULATED_DEVICE_RADIX_SORT_CUH
#define VOXELD_EMULATED_DEVICE_RADIX_SORT_CUH

#include <numeric>
#include <vector>

#include "cuda_runtime.h"

namespace cub {

struct DeviceRadixSort {
  // Sorts by the keys' bits `begin` to `end` - 1. The sort is stable.
  template <typename key, typename value, typename number>
  static cudaError_t SortPairs(void *temporary, size_t &bytes, const key *keys, key *sorted_keys, const value *values,
                               value *sorted_values, number count, int begin, int end, cudaStream_t) {
    bytes = 1;
    std::vector<size_t> order(temporary == NULL ? 0 : (size_t)count);
    std::iota(order.begin(), order.end(), (size_t)0);
    int above = (int)sizeof(key) * 8 - end;
    auto part = [=](size_t i) { return (key)(keys[i] << above) >> (above + begin); };
    std::stable_sort(order.begin(), order.end(), [=](size_t a, size_t b) { return part(a) < part(b); });
    for (size_t i = 0; i < order.size(); i++) {
      sorted_keys[i] = keys[order[i]];
      sorted_values[i] = values[order[i]];
    }
    return cudaSuccess;
  }

  template <typename key, typename number>
  static cudaError_t SortKeys(void *temporary, size_t &bytes, const key *keys, key *sorted_keys, number count,
                              int begin, int end, cudaStream_t stream) {
    std::vector<char> nothing(temporary == NULL ? 0 : (size_t)count);
    return SortPairs(temporary, bytes, keys, sorted_keys, (const char *)nothing.data(), nothing.data(), count, begin,
                     end, stream);
  }
};

}  // namespace cub

#endif
