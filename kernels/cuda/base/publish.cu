// See publish.cuh.
#include "kernels/cuda/base/publish.cuh"

#include "kernels/cuda/base/launch.cuh"

enum { BLOCK = 256 };

// Also notes the moment CUDA_FOUND in v.counters, unless a gather has noted it. `publish` tells the host another
// CUDA_FOUND, a little later; send_kernel then overwrites that with the noted moment.
static __global__ void __launch_bounds__(BLOCK)
    publish_kernel(const __grid_constant__ struct cuda_view v, uint32_t sequence) {
  cuda_wait();
  if (threadIdx.x == 0 && v.counters->moments[CUDA_FOUND] == 0) v.counters->moments[CUDA_FOUND] = cuda_now();
  publish(v, sequence);
}

enum vx_status cuda_publish(const struct cuda_run *run, uint32_t sequence, struct error *error) {
  return cuda_launch("publish_kernel", publish_kernel, 1, BLOCK, 0, run, error, *run, sequence);
}
