// The distance by which steps compare points. Pure function for C and CUDA.
#ifndef VOXELD_NEAR_H
#define VOXELD_NEAR_H

#include "kernels/half.h"

// In float32; not NaN if all coordinates are finite.
VX_SHARED float vx_squared_distance(const float *a, const float *b) {
  float dx = a[0] - b[0], dy = a[1] - b[1], dz = a[2] - b[2];
  return (dx * dx + dy * dy) + dz * dz;
}

#endif
