// Values of features on their way to tensors: one, or 16 bytes of them.
#ifndef VOXELD_CUDA_ITEMS_CUH
#define VOXELD_CUDA_ITEMS_CUH

#include <cuda_fp16.h>
#include <stdint.h>

#include "kernels/half.h"

static __device__ uint16_t half_bits(float value) {
  return value == value ? __half_as_ushort(__float2half_rn(value)) : (uint16_t)VX_HALF_NAN;
}

static __device__ void store_items(float *to, const float (&values)[4]) {
  *(float4 *)to = make_float4(values[0], values[1], values[2], values[3]);
}

static __device__ void store_items(uint16_t *to, const float (&values)[8]) {
  uint32_t words[4];
#pragma unroll
  for (int i = 0; i < 4; i++) {
    words[i] = half_bits(values[2 * i]) | (uint32_t)half_bits(values[2 * i + 1]) << 16;
  }
  *(uint4 *)to = make_uint4(words[0], words[1], words[2], words[3]);
}

static __device__ void store_item(float *to, float value) { *to = value; }
static __device__ void store_item(uint16_t *to, float value) { *to = half_bits(value); }

#endif
