// A fused multiply-add on any processor: a * b + c with one rounding. Pure.
#ifndef VOXELD_CPU_FUSED_H
#define VOXELD_CPU_FUSED_H

#include <math.h>
#include <stdint.h>
#include <string.h>

// Computes in binary64. The product is exact. The sum is rounded to odd: if it is not exact and its last bit is 0, the
// next double towards the exact sum replaces it. The conversion to binary32 then gives the same bits as one rounding.
static inline float cpu_fuse_in_double(float a, float b, float c) {
  double product = (double)a * (double)b, sum = product + (double)c;
  double part = sum - product, rest = (product - (sum - part)) + ((double)c - part);
  int64_t bits;
  memcpy(&bits, &sum, sizeof bits);
  // False if the sum is infinite or NaN, since `rest` is then NaN.
  if ((rest > 0 || rest < 0) && (bits & 1) == 0) bits += (rest > 0) == (sum > 0) ? 1 : -1;
  memcpy(&sum, &bits, sizeof sum);
  return (float)sum;
}

static inline float cpu_fuse(float a, float b, float c) {
#ifdef __FP_FAST_FMAF  // an instruction of every processor that the program is built for
  return __builtin_fmaf(a, b, c);
#else
  return cpu_fuse_in_double(a, b, c);
#endif
}

#endif
