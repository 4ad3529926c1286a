// Elementary functions that give the same bits everywhere. Pure functions for C and CUDA.
//
// They use operations that IEEE binary64 rounds correctly (+, -, *, /, sqrt, floor, comparison), in the order written
// here. Compile them with -ffp-contract=off or --fmad=false. The series are Taylor series. The constants split ln 2 and
// pi / 2 into parts; the multiples of all parts but the last are exact.
#ifndef VOXELD_EXACT_H
#define VOXELD_EXACT_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "kernels/host_device.h"

#define VX_HALF_PI 0x1.921fb54442d18p+0
#define VX_PI 0x1.921fb54442d18p+1

#define VX_MOST_RADIANS 65536

// 2^power, which must be a normal number.
VX_SHARED double vx_power_of_two(int power) {
  uint64_t bits = (uint64_t)(power + 1023) << 52;
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

// e^x; x is clamped to [-128, 128]. NaN gives e^128.
VX_SHARED double vx_exp(double x) {
  x = x < 128 ? x : 128;
  x = x > -128 ? x : -128;
  double k = floor(x * 0x1.71547652b82fep+0 + 0.5);
  double r = (x - k * 0x1.62e42feep-1) - k * 0x1.a39ef35793c76p-33;
  double p = 1.0 / 6227020800;  // 13!
  p = p * r + 1.0 / 479001600;
  p = p * r + 1.0 / 39916800;
  p = p * r + 1.0 / 3628800;
  p = p * r + 1.0 / 362880;
  p = p * r + 1.0 / 40320;
  p = p * r + 1.0 / 5040;
  p = p * r + 1.0 / 720;
  p = p * r + 1.0 / 120;
  p = p * r + 1.0 / 24;
  p = p * r + 1.0 / 6;
  p = p * r + 0.5;
  p = p * r + 1;
  p = p * r + 1;
  return p * vx_power_of_two((int)k);
}

// Overflow and NaN give +inf.
VX_SHARED float vx_exp_float(float x) { return (float)vx_exp(x); }

// ln x, for x from 2^-1000 to 2^1000. With x = 2^k * m and m from sqrt(1 / 2) to sqrt(2):
//   k * ln 2 + 2 * atanh((m - 1) / (m + 1))
VX_SHARED double vx_log(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  int k = (int)(bits >> 52) - 1023;
  double m = x * vx_power_of_two(-k);
  k = m > 0x1.6a09e667f3bcdp+0 ? k + 1 : k;
  m = m > 0x1.6a09e667f3bcdp+0 ? m / 2 : m;
  double u = (m - 1) / (m + 1), z = u * u;
  double p = 1.0 / 19;
  p = p * z + 1.0 / 17;
  p = p * z + 1.0 / 15;
  p = p * z + 1.0 / 13;
  p = p * z + 1.0 / 11;
  p = p * z + 1.0 / 9;
  p = p * z + 1.0 / 7;
  p = p * z + 1.0 / 5;
  p = p * z + 1.0 / 3;
  return k * 0x1.62e42feep-1 + (k * 0x1.a39ef35793c76p-33 + 2 * (u + (u * z) * p));
}

// x^power, for x from 0 to 1 and a power of 0 or more. 0^0 is 1. If x > 0, results below e^-128 become e^-128.
VX_SHARED double vx_power(float x, float power) {
  if (power == 0) return 1;
  return x > 0 ? vx_exp((double)power * vx_log((double)x)) : 0;
}

// 1 / (1 + e^-x). Never falls as x grows. NaN gives 0.
VX_SHARED float vx_sigmoid(float x) { return (float)(1 / (1 + vx_exp(-(double)x))); }

// `angle`: from -VX_MOST_RADIANS to VX_MOST_RADIANS.
VX_SHARED void vx_sincos(double angle, double *sine, double *cosine) {
  double k = floor(angle * 0x1.45f306dc9c883p-1 + 0.5);
  double r = ((angle - k * 0x1.921fb544p+0) - k * 0x1.0b4611a6p-34) - k * 0x1.3198a2e037073p-69;
  double z = r * r;
  double s = 1.0 / 355687428096000;  // 17!
  s = s * z - 1.0 / 1307674368000;
  s = s * z + 1.0 / 6227020800;
  s = s * z - 1.0 / 39916800;
  s = s * z + 1.0 / 362880;
  s = s * z - 1.0 / 5040;
  s = s * z + 1.0 / 120;
  s = s * z - 1.0 / 6;
  s = r + (r * z) * s;
  double c = 1.0 / 20922789888000;  // 16!
  c = c * z - 1.0 / 87178291200;
  c = c * z + 1.0 / 479001600;
  c = c * z - 1.0 / 3628800;
  c = c * z + 1.0 / 40320;
  c = c * z - 1.0 / 720;
  c = c * z + 1.0 / 24;
  c = c * z - 0.5;
  c = 1 + z * c;
  switch ((int)k & 3) {  // the quadrant
    case 0: *sine = s, *cosine = c; break;
    case 1: *sine = c, *cosine = -s; break;
    case 2: *sine = -s, *cosine = -c; break;
    default: *sine = -c, *cosine = s; break;
  }
}

// The angle of (x, y), from -pi to pi; 0 for (0, 0). u / (1 + sqrt(1 + u * u)) is the tangent of half the angle.
// Halving three times keeps the series short.
VX_SHARED double vx_atan2(double y, double x) {
  double across = fabs(x), up = fabs(y);
  double least = across < up ? across : up, most = across < up ? up : across;
  double u = most > 0 ? least / most : 0;
  for (int i = 0; i < 3; i++) u = u / (1 + sqrt(1 + u * u));
  double z = u * u;
  double a = 1.0 / 17;
  a = a * z - 1.0 / 15;
  a = a * z + 1.0 / 13;
  a = a * z - 1.0 / 11;
  a = a * z + 1.0 / 9;
  a = a * z - 1.0 / 7;
  a = a * z + 1.0 / 5;
  a = a * z - 1.0 / 3;
  a = 8 * (u + (u * z) * a);
  a = up > across ? VX_HALF_PI - a : a;
  a = x < 0 ? VX_PI - a : a;
  return y < 0 ? -a : a;
}

#endif
