// See exhaustive.h. Compiled with the flags of the kernels.
#include "tests/cuda/exhaustive.h"

#include <cuda_runtime.h>
#include <stdio.h>

enum { THREADS = 256, BLOCKS = 4096 };

// Each thread adds the sum of its results to the total.
template <enum exhaustive which> static __global__ void sum_all(uint64_t count, unsigned long long *total) {
  struct exhaustive_sum sum = {0, 0};
  for (uint64_t number = blockIdx.x * (uint64_t)THREADS + threadIdx.x; number < count;
       number += (uint64_t)THREADS * BLOCKS)
    exhaustive_add(which, number, &sum);
  atomicAdd(&total[0], (unsigned long long)sum.hash);
  atomicAdd(&total[1], (unsigned long long)sum.falls);
}

static void launch(enum exhaustive which, uint64_t count, unsigned long long *total) {
  switch (which) {
    case EXHAUSTIVE_EXP: sum_all<EXHAUSTIVE_EXP><<<BLOCKS, THREADS>>>(count, total); break;
    case EXHAUSTIVE_SIGMOID: sum_all<EXHAUSTIVE_SIGMOID><<<BLOCKS, THREADS>>>(count, total); break;
    case EXHAUSTIVE_SINCOS: sum_all<EXHAUSTIVE_SINCOS><<<BLOCKS, THREADS>>>(count, total); break;
    case EXHAUSTIVE_OVERLAP: sum_all<EXHAUSTIVE_OVERLAP><<<BLOCKS, THREADS>>>(count, total); break;
    default: sum_all<EXHAUSTIVE_ATAN2><<<BLOCKS, THREADS>>>(count, total); break;
  }
}

bool exhaustive_has_gpu(void) {
  int devices = 0;
  cudaError_t result = cudaGetDeviceCount(&devices);
  if (result != cudaSuccess || devices == 0) {
    fprintf(stderr, "no device: %s\n", cudaGetErrorString(result));
    return false;
  }
  return true;
}

bool exhaustive_on_gpu(enum exhaustive which, uint64_t count, struct exhaustive_sum *sum) {
  unsigned long long *total = NULL, read[2] = {0, 0};
  cudaError_t result = cudaMalloc(&total, sizeof read);
  if (result == cudaSuccess) result = cudaMemset(total, 0, sizeof read);
  if (result == cudaSuccess) launch(which, count, total);
  if (result == cudaSuccess) result = cudaGetLastError();
  if (result == cudaSuccess) result = cudaMemcpy(read, total, sizeof read, cudaMemcpyDeviceToHost);
  if (result != cudaSuccess) printf("%s: %s\n", exhaustive_rows[which].name, cudaGetErrorString(result));
  cudaFree(total);
  sum->hash = read[0];
  sum->falls = read[1];
  return result == cudaSuccess;
}
