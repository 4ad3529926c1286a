// The bits of floats: finiteness, one NaN for computed tensors, and float16 <-> float32 in integer arithmetic, since
// machines differ in how they convert the payload of a NaN.
//
// Pure functions for C and CUDA.
#ifndef VOXELD_HALF_H
#define VOXELD_HALF_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "kernels/host_device.h"

#define VX_HALF_NAN 0x7E00u
#define VX_FLOAT_NAN 0x7FC00000u

VX_SHARED uint32_t vx_float_bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

VX_SHARED float vx_bits_float(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

VX_SHARED bool vx_is_finite(float value) { return fabsf(value) < INFINITY; }

VX_SHARED bool vx_are_finite(float x, float y, float z) {
  return (fabsf(x) < INFINITY) & (fabsf(y) < INFINITY) & (fabsf(z) < INFINITY);
}

// Replaces any NaN by VX_FLOAT_NAN: processors differ in which of two payloads an addition keeps.
VX_SHARED float vx_canonical(float value) { return value == value ? value : vx_bits_float(VX_FLOAT_NAN); }

// Exact. A NaN keeps its sign and payload and is not quieted.
VX_SHARED float vx_half_to_float(uint16_t half) {
  uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
  uint32_t magnitude = half & 0x7FFFu;
  if (magnitude >= 0x7C00u)  // infinity and NaN: exponent 31 becomes 255
    return vx_bits_float(sign | 0x7F800000u | (magnitude & 0x3FFu) << 13);
  if (magnitude >= 0x400u)  // normal: the exponent's bias grows from 15 to 127
    return vx_bits_float(sign | ((magnitude << 13) + ((127u - 15u) << 23)));
  if (magnitude == 0) return vx_bits_float(sign);
  uint32_t exponent = 127u - 14u;  // subnormal: shift its highest bit to the implied bit of a normal number
  while ((magnitude & 0x400u) == 0) {
    magnitude <<= 1;
    exponent--;
  }
  return vx_bits_float(sign | exponent << 23 | (magnitude & 0x3FFu) << 13);
}

// Rounds to nearest, ties to even; overflows to infinity; keeps subnormals; any NaN becomes VX_HALF_NAN.
VX_SHARED uint16_t vx_float_to_half(float value) {
  uint32_t bits = vx_float_bits(value);
  uint32_t sign = bits >> 16 & 0x8000u;
  uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return VX_HALF_NAN;
  if (magnitude >= (127u + 16u) << 23)  // 65536 and above
    return (uint16_t)(sign | 0x7C00u);
  if (magnitude >= (127u - 14u) << 23) {  // normal: a carry out of the mantissa raises the exponent, up to infinity
    uint32_t rebiased = magnitude - ((127u - 15u) << 23);
    return (uint16_t)(sign | (rebiased + 0xFFFu + (rebiased >> 13 & 1u)) >> 13);
  }
  uint32_t exponent = magnitude >> 23;
  if (exponent < 127u - 25u)  // below half of the smallest subnormal
    return (uint16_t)sign;
  uint32_t mantissa = (magnitude & 0x7FFFFFu) | 0x800000u;
  uint32_t shift = 126u - exponent;  // 14..24: leaves units of 2^-24
  uint32_t half = mantissa >> shift;
  uint32_t rest = mantissa & ((1u << shift) - 1u);
  uint32_t tie = 1u << (shift - 1u);
  half += rest > tie || (rest == tie && (half & 1u));
  return (uint16_t)(sign | half);
}

#endif
