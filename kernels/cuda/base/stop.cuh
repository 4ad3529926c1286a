// How kernels learn that the host has stopped their job (cuda_await). A stopped kernel ends early, with wrong results.
#ifndef VOXELD_CUDA_STOP_CUH
#define VOXELD_CUDA_STOP_CUH

#include <cuda_runtime.h>
#include <stdint.h>

struct cuda_stop {
  const uint32_t *asked;  // host: the sequence of the job that must end early
  uint32_t *told;         // the sequence of the last job that a thread has found stopped
  uint32_t sequence;      // of the job
};

// Called by any thread. A read of the host's word takes a microsecond, and such reads do not overlap. So few threads
// read it (`asks`), and tell the others and later kernels through `told`.
static __device__ inline bool cuda_has_stopped(const struct cuda_stop &stop, bool asks) {
  volatile uint32_t *told = stop.told;
  const volatile uint32_t *asked = stop.asked;
  bool stopped = *told == stop.sequence || (asks && *asked == stop.sequence);
  if (stopped) *told = stop.sequence;
  return stopped;
}

// The same, called by a whole block.
static __device__ inline bool cuda_is_stopped(const struct cuda_stop &stop, bool asks) {
  __shared__ bool stopped;
  __syncthreads();
  if (threadIdx.x == 0) stopped = cuda_has_stopped(stop, asks);
  __syncthreads();
  return stopped;
}

#endif
