// Stands in for cub's header of this name.
#ifndef VOXELD_EMULATED_DEVICE_SCAN_CUH
#define VOXELD_EMULATED_DEVICE_SCAN_CUH

#include "cuda_runtime.h"

namespace cub {

struct DeviceScan {
  template <typename type>
  static cudaError_t ExclusiveSum(void *temporary, size_t &bytes, const type *items, type *before, int64_t count,
                                  cudaStream_t) {
    bytes = 1;
    type sum = 0;
    for (int64_t i = 0; temporary != NULL && i < count; i++) {
      type item = items[i];
      before[i] = sum;
      sum += item;
    }
    return cudaSuccess;
  }
};

}  // namespace cub

#endif
