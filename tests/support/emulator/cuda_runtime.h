// Replaces CUDA's header of this name: what CUDA C adds to C++, for kernels that run on fibres (fibres.h).
//
// Shared variables of a kernel are static, since blocks run one after the other. Atomic functions are plain functions,
// since threads switch at barriers.
#ifndef VOXELD_EMULATED_CUDA_RUNTIME_H
#define VOXELD_EMULATED_CUDA_RUNTIME_H

#include <math.h>
#include <stdint.h>
#include <string.h>
#include <vector_functions.h>

#include <algorithm>
#include <type_traits>

#include "fibres.h"

using std::max;
using std::min;

#undef __device__
#undef __global__
#undef __host__
#undef __shared__
#undef __constant__
#undef __launch_bounds__
#undef __grid_constant__
#undef __forceinline__
#define __device__
#define __global__
#define __host__
#define __shared__ static
#define __constant__ static const
#define __launch_bounds__(...)
#define __grid_constant__
#define __forceinline__ inline

// ---- barriers and warps ---------------------------------------------------------------------------------------------

static inline void __syncthreads() { emulated_barrier(); }

// The number of the block's threads with a true `yes`.
static inline int __syncthreads_count(int yes) {
  static int count;
  emulated_barrier();  // until all threads have read the count of the last call
  count = 0;
  emulated_barrier();
  count += yes != 0;
  emulated_barrier();
  return count;
}

static inline void __syncwarp(uint32_t mask = ~0u) { emulated_part(mask); }

template <typename type> static inline uint64_t emulated_bits(type value) {
  uint64_t bits = 0;
  static_assert(sizeof value <= sizeof bits, "a lane hands over 8 bytes at most");
  memcpy(&bits, &value, sizeof value);
  return bits;
}

// Combines the values of the lanes in the mask.
template <typename type, typename combine>
static inline type emulated_fold(uint32_t mask, uint64_t bits, type first, combine with) {
  const uint64_t *row = emulated_meet(mask, bits);
  type all = first;
  for (int lane = 0; lane < EMULATED_WARP; lane++) all = (mask >> lane & 1) != 0 ? with(all, lane, row[lane]) : all;
  emulated_part(mask);
  return all;
}

static inline uint32_t __ballot_sync(uint32_t mask, int yes) {
  return emulated_fold(
      mask, yes != 0, 0u, [](uint32_t all, int lane, uint64_t bits) { return all | (uint32_t)bits << lane; });
}

static inline int __any_sync(uint32_t mask, int yes) { return __ballot_sync(mask, yes) != 0; }
static inline int __all_sync(uint32_t mask, int yes) { return __ballot_sync(mask, yes == 0) == 0; }

template <typename type> static inline uint32_t __match_any_sync(uint32_t mask, type value) {
  uint64_t mine = emulated_bits(value);
  return emulated_fold(
      mask, mine, 0u, [mine](uint32_t all, int lane, uint64_t bits) { return all | (uint32_t)(bits == mine) << lane; });
}

static inline uint32_t __reduce_add_sync(uint32_t mask, uint32_t value) {
  return emulated_fold(
      mask, value, 0u, [](uint32_t all, int, uint64_t bits) { return all + (uint32_t)bits; });
}

static inline uint32_t __reduce_max_sync(uint32_t mask, uint32_t value) {
  return emulated_fold(
      mask, value, 0u, [](uint32_t all, int, uint64_t bits) { return max(all, (uint32_t)bits); });
}

template <typename type> static inline type emulated_take(uint32_t mask, type value, int from) {
  const uint64_t *row = emulated_meet(mask, emulated_bits(value));
  if ((mask >> from & 1) == 0) emulated_die("a shuffle reads a lane that is not in the mask");
  type taken;
  memcpy(&taken, &row[from], sizeof taken);
  emulated_part(mask);
  return taken;
}

static inline int emulated_lane() { return (int)(threadIdx.x % EMULATED_WARP); }

template <typename type> static inline type __shfl_sync(uint32_t mask, type value, int lane, int width = 32) {
  return emulated_take(mask, value, emulated_lane() / width * width + (lane & (width - 1)));
}

template <typename type> static inline type __shfl_xor_sync(uint32_t mask, type value, int bits, int width = 32) {
  int lane = emulated_lane(), from = lane ^ bits;
  return emulated_take(mask, value, from / width > lane / width ? lane : from);
}

template <typename type> static inline type __shfl_up_sync(uint32_t mask, type value, int distance, int width = 32) {
  int lane = emulated_lane();
  return emulated_take(mask, value, lane % width < distance ? lane : lane - distance);
}

template <typename type> static inline type __shfl_down_sync(uint32_t mask, type value, int distance, int width = 32) {
  int lane = emulated_lane();
  return emulated_take(mask, value, lane % width + distance < width ? lane + distance : lane);
}

// ---- memory ---------------------------------------------------------------------------------------------------------

#define EMULATED_ATOMIC(name, result)                                                                                  \
  template <typename type, typename operand> static inline type name(type *at, operand given) {                        \
    type old = *at, value = (type)given;                                                                               \
    *at = (type)(result);                                                                                              \
    return old;                                                                                                        \
  }
EMULATED_ATOMIC(atomicAdd, old + value)
EMULATED_ATOMIC(atomicSub, old - value)
EMULATED_ATOMIC(atomicMin, value < old ? value : old)
EMULATED_ATOMIC(atomicMax, value > old ? value : old)
EMULATED_ATOMIC(atomicOr, old | value)
EMULATED_ATOMIC(atomicAnd, old &value)
EMULATED_ATOMIC(atomicExch, value)

template <typename type, typename expected, typename desired>
static inline type atomicCAS(type *at, expected if_this, desired then) {
  type old = *at;
  *at = old == (type)if_this ? (type)then : old;
  return old;
}

template <typename type> static inline type __ldcs(const type *at) { return *at; }
template <typename type> static inline type __ldcg(const type *at) { return *(const type *)emulated_seen(at); }
template <typename type> static inline type __ldg(const type *at) { return *at; }
template <typename type> static inline void __stcs(type *at, type value) { *at = value; }
template <typename type> static inline void __stcg(type *at, type value) { *at = value; }
static inline void __threadfence() {}
static inline void __threadfence_block() {}
static inline void __threadfence_system() {}

// The address of a shared variable. It fits in 32 bits, because the program is not position-independent.
static inline uint32_t __cvta_generic_to_shared(const void *at) { return (uint32_t)(uintptr_t)at; }

template <typename type> static inline type *emulated_at(uint32_t address) { return (type *)(uintptr_t)address; }

// ---- bits -----------------------------------------------------------------------------------------------------------

static inline uint32_t __funnelshift_r(uint32_t low, uint32_t high, uint32_t shift) {
  return (uint32_t)(((uint64_t)high << 32 | low) >> (shift & 31));
}
static inline int __popc(uint32_t value) { return __builtin_popcount(value); }
static inline int __popcll(uint64_t value) { return __builtin_popcountll(value); }
static inline int __ffs(uint32_t value) { return __builtin_ffs((int)value); }
static inline int __ffsll(uint64_t value) { return __builtin_ffsll((long long)value); }
static inline int __clz(uint32_t value) { return value == 0 ? 32 : __builtin_clz(value); }
static inline int __clzll(uint64_t value) { return value == 0 ? 64 : __builtin_clzll(value); }
static inline uint64_t __umul64hi(uint64_t a, uint64_t b) { return (uint64_t)((unsigned __int128)a * b >> 64); }

template <typename to, typename from> static inline to emulated_cast(from value) {
  to same;
  memcpy(&same, &value, sizeof same);
  return same;
}
static inline uint32_t __float_as_uint(float value) { return emulated_cast<uint32_t>(value); }
static inline int __float_as_int(float value) { return emulated_cast<int>(value); }
static inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
static inline float __uint_as_float(uint32_t bits) { return emulated_cast<float>(bits); }
static inline float __int_as_float(int bits) { return emulated_cast<float>(bits); }

// CUDA has these for all pairs of types.
template <typename a, typename b> static inline typename std::common_type<a, b>::type min(a one, b other) {
  return other < one ? other : one;
}
template <typename a, typename b> static inline typename std::common_type<a, b>::type max(a one, b other) {
  return one < other ? other : one;
}

// ---- launches, and calls about kernels ------------------------------------------------------------------------------

template <typename... params>
static inline cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *attributes, void (*kernel)(params...)) {
  return cudaFuncGetAttributes(attributes, (const void *)kernel);
}

template <typename... params>
static inline cudaError_t cudaFuncSetAttribute(void (*kernel)(params...), cudaFuncAttribute attribute, int value) {
  return cudaFuncSetAttribute((const void *)kernel, attribute, value);
}

template <typename... params>
static inline cudaError_t cudaOccupancyMaxActiveClusters(int *clusters, void (*kernel)(params...),
                                                         const cudaLaunchConfig_t *config) {
  return cudaOccupancyMaxActiveClusters(clusters, (const void *)kernel, config);
}

template <typename... params, typename... values>
static inline cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *config, void (*kernel)(params...),
                                             const values &...given) {
  dim3 blocks = config->gridDim, threads = config->blockDim;
  size_t bytes = config->dynamicSmemBytes;
  emulated_enqueue([=] { emulated_launch("a kernel", blocks, threads, bytes, [&] { kernel(given...); }); });
  return cudaSuccess;
}

#endif
