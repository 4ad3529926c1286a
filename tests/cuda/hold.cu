// See hold.h.
#include "tests/cuda/hold.h"

#include <cuda_runtime.h>
#include <stdint.h>

enum { THREADS = 1024 };

static __device__ uint64_t now(void) {
  uint64_t ns;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
  return ns;
}

// All blocks end at the same time: when the first of them has waited for `ns`.
static __global__ void __launch_bounds__(THREADS, 2) hold_kernel(unsigned long long *end, uint64_t ns) {
  uint64_t mine = now() + ns, first = atomicCAS(end, 0ull, (unsigned long long)mine);
  while (now() < (first ? first : mine)) {
  }
}

bool hold_gpu(int us) {
  static cudaStream_t stream;
  static unsigned long long *end;
  static unsigned blocks;
  if (!stream) {
    struct cudaDeviceProp is;
    int device;
    if (cudaGetDevice(&device) != cudaSuccess || cudaGetDeviceProperties(&is, device) != cudaSuccess ||
        cudaMalloc((void **)&end, sizeof *end) != cudaSuccess ||
        cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess)
      return false;
    blocks = (unsigned)(is.multiProcessorCount * (is.maxThreadsPerMultiProcessor / THREADS));
  }
  if (cudaMemsetAsync(end, 0, sizeof *end, stream) != cudaSuccess) return false;
  hold_kernel<<<blocks, THREADS, 0, stream>>>(end, (uint64_t)us * 1000);
  return cudaGetLastError() == cudaSuccess;
}
