// Clears the arrays of a step before its first kernel.
#ifndef VOXELD_CUDA_FILL_CUH
#define VOXELD_CUDA_FILL_CUH

#include "kernels/cuda/steps/steps.cuh"

enum { FILL_BLOCK = 256 };

static __global__ void __launch_bounds__(FILL_BLOCK)
    fill_kernel(uint64_t *ones, uint64_t num_ones, uint64_t *zeros, uint64_t num_zeros) {
  cuda_wait();
  uint64_t begin = (uint64_t)blockIdx.x * FILL_BLOCK + threadIdx.x, step = (uint64_t)gridDim.x * FILL_BLOCK;
  for (uint64_t i = begin; i < num_ones; i += step) ones[i] = UINT64_MAX;
  for (uint64_t i = begin; i < num_zeros; i += step) zeros[i] = 0;
}

// Sets all bits of the first array, and clears all bits of the second.
static inline enum vx_status cuda_fill(const struct cuda_chain *chain, uint64_t *ones, uint64_t num_ones,
                                       uint64_t *zeros, uint64_t num_zeros, struct error *error) {
  unsigned blocks = cuda_looping_blocks(&chain->run, num_ones + num_zeros, FILL_BLOCK, 8);
  return cuda_launch("fill_kernel", fill_kernel, blocks, FILL_BLOCK, 0, &chain->run, error, ones, num_ones, zeros,
                     num_zeros);
}

#endif
