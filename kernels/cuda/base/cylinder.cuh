// The angle in cylindrical coordinates on a GPU: the bits of vx_cylinder_phi, for most points with fewer operations.
//
// A series gives the angle in binary64, with an error. If all values within that error round to one float32, so does
// the angle of vx_atan2. A few points of a million need vx_atan2.
#ifndef VOXELD_CUDA_CYLINDER_CUH
#define VOXELD_CUDA_CYLINDER_CUH

#include <cuda_runtime.h>

#include "kernels/cylinder.h"

// More than twice the relative error of the series. The coefficients make this error as small as possible up to pi / 4.
// The other errors, and those of vx_atan2, are below 1e-14.
#define CUDA_PHI_ERROR 1e-13

// atan(u) = u * the series in z = u * u, its highest power first.
static __device__ inline double cuda_phi_series(double z) {
  constexpr double coefficients[] = {
      -0x1.dadb4a20a4fbdp-14, 0x1.0c7778e395a95p-10, -0x1.1e072a30ce0cdp-8, 0x1.823662c80ff83p-7,
      -0x1.799d6f1fd2dfap-6,  0x1.24565a3adada9p-5,  -0x1.825ca89e7bb85p-5, 0x1.d2248acce1cdbp-5,
      -0x1.0efed4104288bp-4,  0x1.3aae174d7e7b1p-4,  -0x1.744f732878e26p-4, 0x1.c71b3ae27309dp-4,
      -0x1.249240b6342efp-3,  0x1.9999995bc7afap-3,  -0x1.55555554fb5d5p-2, 0x1.ffffffffffea3p-1};
  double sum = coefficients[0];
#pragma unroll
  for (int i = 1; i < (int)(sizeof coefficients / sizeof *coefficients); i++) sum = sum * z + coefficients[i];
  return sum;
}

static __device__ inline float cuda_phi(float x, float y) {
  double across = fabs((double)x), up = fabs((double)y);
  double least = across < up ? across : up, most = across < up ? up : across;
  if (!(most > 1e-30 && most < 1e30)) return vx_cylinder_phi(x, y);
  double near = 1 / (float)most, u = least * (near * (2 - most * near)), z = u * u;
  double a = cuda_phi_series(z) * u;
  a = up > across ? VX_HALF_PI - a : a;
  a = x < 0 ? VX_PI - a : a;
  float low = (float)(a * (1 - CUDA_PHI_ERROR)), high = (float)(a * (1 + CUDA_PHI_ERROR));
  if (low != high) return vx_cylinder_phi(x, y);
  return y < 0 ? -low : low;
}

#endif
