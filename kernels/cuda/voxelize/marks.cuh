// Marks of cells: one bit each, in the order of the keys. They are all 0 when a job begins, and its end clears those
// that it set (transfer.cu).
#ifndef VOXELD_CUDA_MARKS_CUH
#define VOXELD_CUDA_MARKS_CUH

#include "kernels/cuda/base/run.cuh"

struct cuda_marks {
  uint32_t *words;       // [num_cells / 32], in whole groups; NULL if nothing is marked
  const uint64_t *keys;  // [table_slots]: of the cells; NULL if a cell's slot is its key
};

static inline struct cuda_marks cuda_marks_of(const struct cuda_run *run) { return {run->marks, run->keys}; }

static __device__ inline uint64_t cuda_key_of_slot(const struct cuda_marks &marks, uint32_t slot) {
  return marks.keys != NULL ? marks.keys[slot] : slot;
}

static __device__ inline void cuda_mark(const struct cuda_marks &marks, uint32_t slot) {
  uint64_t key = cuda_key_of_slot(marks, slot);
  atomicOr(&marks.words[key / 32], 1u << key % 32);
}

#endif
