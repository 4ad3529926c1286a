// Whether numbers are finite: what both backends share.
//
// Pure functions for C and CUDA.
#ifndef VOXELD_FINITE_H
#define VOXELD_FINITE_H

#include <math.h>
#include <stdbool.h>

#include "kernels/host_device.h"

VX_SHARED bool vx_is_finite(float value) { return fabsf(value) < INFINITY; }

VX_SHARED bool vx_are_finite(float x, float y, float z) {
  return (fabsf(x) < INFINITY) & (fabsf(y) < INFINITY) & (fabsf(z) < INFINITY);
}

#endif
