// The angle of a point in cylindrical coordinates on a GPU: the bits of vx_cylinder_phi, for most points with fewer
// operations.
//
// A series gives the angle in binary64, with an error. If all values within that error round to the same float32, so
// does the angle of vx_atan2. About three points of 10,000 are too near the middle between two floats, and need
// vx_atan2.
#ifndef VOXELD_CUDA_CYLINDER_CUH
#define VOXELD_CUDA_CYLINDER_CUH

#include <cuda_runtime.h>

#include "kernels/cylinder.h"

// More than twice the relative error of the series, which is the best for angles up to pi / 4. The other errors, and
// those of vx_atan2, are below 1e-14.
#define CUDA_PHI_ERROR 4e-12

static __device__ inline float cuda_phi(float x, float y) {
  double across = fabs((double)x), up = fabs((double)y);
  double least = across < up ? across : up, most = across < up ? up : across;
  if (!(most > 1e-30 && most < 1e30)) return vx_cylinder_phi(x, y);
  double near = 1 / (float)most, u = least * (near * (2 - most * near)), z = u * u;
  double a = -0x1.267ca1140436fp-12;
  a = a * z + 0x1.27a73c8d61dbdp-9;
  a = a * z - 0x1.16d92b4072166p-7;
  a = a * z + 0x1.4e0769d75c1e6p-6;
  a = a * z - 0x1.24e8e84cdc053p-5;
  a = a * z + 0x1.a041ddc2a01c8p-5;
  a = a * z - 0x1.057d7e19e2d44p-4;
  a = a * z + 0x1.3821f38fb181cp-4;
  a = a * z - 0x1.73d81265d0612p-4;
  a = a * z + 0x1.c70d03537c97fp-4;
  a = a * z - 0x1.2491be8db6526p-3;
  a = a * z + 0x1.9999947ea6d46p-3;
  a = a * z - 0x1.5555554bd1ce7p-2;
  a = (a * z + 0x1.fffffffffd0f6p-1) * u;
  a = up > across ? VX_HALF_PI - a : a;
  a = x < 0 ? VX_PI - a : a;
  float low = (float)(a * (1 - CUDA_PHI_ERROR)), high = (float)(a * (1 + CUDA_PHI_ERROR));
  if (low != high) return vx_cylinder_phi(x, y);
  return y < 0 ? -low : low;
}

#endif
