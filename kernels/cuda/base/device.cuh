// What kernels of several operations use on the device.
#ifndef VOXELD_CUDA_DEVICE_CUH
#define VOXELD_CUDA_DEVICE_CUH

#include <cuda_runtime.h>
#include <stdint.h>

#include "kernels/half.h"

// Lets the next kernel's blocks start once all blocks of this kernel have called it or ended. Blocks that have started
// take resources, so a long kernel calls it near its end.
__device__ static inline void cuda_let_next() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

__device__ static inline void cuda_wait_alone() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");  // the runtime has had a name for it only since CUDA 12
#endif
}

__device__ static inline void cuda_wait() {
  cuda_let_next();
  cuda_wait_alone();
}

// Like cuda_wait, but the next kernel starts only after the kernel ahead of this one has ended. So before its own wait,
// the next kernel can read what the kernels before this one wrote, past the first-level cache (__ldcg), which may hold
// an older job's values. If all blocks need a word, only one thread of each block should read it.
__device__ static inline void cuda_wait_in_turn() {
  cuda_wait_alone();
  cuda_let_next();
}

__device__ static inline uint64_t cuda_now() {
  uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

__device__ static inline uint32_t cuda_warp_add(uint32_t value) {
#if __CUDA_ARCH__ >= 800
  return __reduce_add_sync(~0u, value);
#else
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(~0u, value, offset);
  return value;
#endif
}

__device__ static inline uint32_t cuda_warp_max(uint32_t value) {
#if __CUDA_ARCH__ >= 800
  return __reduce_max_sync(~0u, value);
#else
  for (int offset = 16; offset > 0; offset /= 2) value = max(value, __shfl_xor_sync(~0u, value, offset));
  return value;
#endif
}

// Called by a whole warp. The sum over the lanes up to and including this one.
template <typename number> __device__ static inline number cuda_warp_upto(number value) {
  for (uint32_t offset = 1; offset < 32; offset *= 2) {
    number other = __shfl_up_sync(~0u, value, offset);
    value += threadIdx.x % 32 >= offset ? other : 0;
  }
  return value;
}

// Called by a block of whole warps. The sum over the threads before this one. `total`: the sum over all threads.
__device__ static inline uint32_t cuda_block_before(uint32_t value, uint32_t *total) {
  __shared__ uint32_t sums[32];
  uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32, before = cuda_warp_upto(value);
  __syncthreads();  // all threads have read the sums of the last call
  if (lane == 31) sums[warp] = before;
  __syncthreads();
  before -= value;
  *total = 0;
  for (uint32_t i = 0; i < blockDim.x / 32; i++) {
    before += i < warp ? sums[i] : 0;
    *total += sums[i];
  }
  return before;
}

// Copies 16 bytes to shared memory, or writes zeros if not `is_there`. `from` must be readable in both cases. The copy
// may be incomplete until cuda_await_copies.
__device__ static inline void cuda_copy_ahead(void *to, const void *from, bool is_there) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"((uint32_t)__cvta_generic_to_shared(to)), "l"(from),
               "r"(is_there ? 16 : 0)
               : "memory");
#else
  *(float4 *)to = is_there ? *(const float4 *)from : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#endif
}

// The same for 8 or 16 bytes, which the first-level cache keeps for other warps.
template <int BYTES> __device__ static inline void cuda_copy_cached(void *to, const void *from, bool is_there) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"((uint32_t)__cvta_generic_to_shared(to)), "l"(from),
               "n"(BYTES), "r"(is_there ? BYTES : 0)
               : "memory");
#else
  for (int i = 0; i < BYTES / 8; i++) ((uint2 *)to)[i] = is_there ? ((const uint2 *)from)[i] : make_uint2(0, 0);
#endif
}

// Ends a group of the thread's copies.
__device__ static inline void cuda_end_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Waits for all groups of the thread's copies but the last LEFT.
template <int LEFT> __device__ static inline void cuda_await_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
#endif
}

// An integer with the same order as the floats; 0 only for a NaN.
__device__ static inline uint32_t cuda_ordered(float value) {
  uint32_t bits = vx_float_bits(value);
  return bits >> 31 != 0 ? ~bits : bits | 0x80000000u;
}

__device__ static inline float cuda_unordered(uint32_t bits) {
  return vx_bits_float(bits >> 31 != 0 ? bits & 0x7FFFFFFFu : ~bits);
}

// A block calls it when its part is done. Returns true in the last of `blocks` blocks, which then sees the others'
// writes.
__device__ static inline bool cuda_last_block(uint32_t *ticket, uint32_t blocks) {
  __shared__ bool last;
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    last = atomicAdd(ticket, 1) == blocks - 1;
    __threadfence();
  }
  __syncthreads();
  return last;
}

#endif
