// Marks of cells: one bit each, in the order of the keys. They are all 0 when a job begins, and its end clears those
// that it set (transfer.cu).
#ifndef VOXELD_CUDA_MARKS_CUH
#define VOXELD_CUDA_MARKS_CUH

#include "kernels/cuda/base/run.cuh"

static __device__ inline uint64_t cuda_key_of_slot(const struct voxel_view &v, uint32_t slot) {
  return v.table.keys != NULL ? v.table.keys[slot] : slot;
}

static __device__ inline void cuda_mark(const struct voxel_view &v, uint32_t slot) {
  uint64_t key = cuda_key_of_slot(v, slot);
  atomicOr(&v.marks[key / 32], 1u << key % 32);
}

#endif
