// Clears memory inside a kernel that also does other work.
#ifndef VOXELD_CUDA_CLEAR_CUH
#define VOXELD_CUDA_CLEAR_CUH

#include <cuda_runtime.h>
#include <stdint.h>

// Called by each of `threads` threads. Writes zeros from `begin` to `end`, in parts of 16 bytes except at the ends.
static __device__ inline void cuda_clear(unsigned char *begin, unsigned char *end, uint64_t thread, uint64_t threads) {
  enum : uint64_t { PART = sizeof(uint4) };
  uint64_t bytes = (uint64_t)(end - begin), head = min((uint64_t)(-(uintptr_t)begin % PART), bytes);
  uint64_t parts = (bytes - head) / PART;
  uint4 *whole = (uint4 *)(begin + head);
  for (uint64_t i = thread; i < parts; i += threads) whole[i] = make_uint4(0, 0, 0, 0);
  for (uint64_t i = thread; i < head; i += threads) begin[i] = 0;
  for (uint64_t i = head + parts * PART + thread; i < bytes; i += threads) begin[i] = 0;
}

#endif
