// Stands in for cub's header of this name.
#ifndef VOXELD_EMULATED_BLOCK_SCAN_CUH
#define VOXELD_EMULATED_BLOCK_SCAN_CUH

#include "cuda_runtime.h"

namespace cub {

enum BlockScanAlgorithm { BLOCK_SCAN_RAKING, BLOCK_SCAN_WARP_SCANS };

template <typename type, int threads, BlockScanAlgorithm algorithm = BLOCK_SCAN_RAKING> struct BlockScan {
  struct TempStorage {
    type sums[threads];
  };
  TempStorage &storage;

  explicit BlockScan(TempStorage &given) : storage(given) {}

  template <int count> void ExclusiveSum(type (&items)[count], type (&before)[count], type &all) {
    type sum = 0, next = 0;
    for (type item : items) sum += item;
    storage.sums[threadIdx.x] = sum;
    emulated_barrier();
    all = 0;
    for (int i = 0; i < threads; i++) {
      next += i < (int)threadIdx.x ? storage.sums[i] : 0;
      all += storage.sums[i];
    }
    emulated_barrier();
    for (int i = 0; i < count; i++) {
      type item = items[i];
      before[i] = next;
      next += item;
    }
  }

  void ExclusiveSum(type item, type &before, type &all) {
    type items[1] = {item}, sums[1];
    ExclusiveSum(items, sums, all);
    before = sums[0];
  }

  void ExclusiveSum(type item, type &before) {
    type all;
    ExclusiveSum(item, before, all);
  }
};

}  // namespace cub

#endif
