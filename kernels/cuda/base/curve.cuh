// A point's place on a Hilbert curve through a box (J. Skilling, "Programming the Hilbert curve", 2004). Neighbours on
// the curve are near each other in space.
#ifndef VOXELD_CUDA_CURVE_CUH
#define VOXELD_CUDA_CURVE_CUH

#include <cuda_runtime.h>
#include <stdint.h>

enum { CUDA_CURVE_BITS = 10 };  // bits per coordinate; a place on the curve has three times as many

static __device__ inline uint32_t cuda_curve_spread(uint32_t value) {
  value = (value | value << 16) & 0x030000FF;
  value = (value | value << 8) & 0x0300F00F;
  value = (value | value << 4) & 0x030C30C3;
  return (value | value << 2) & 0x09249249;
}

static __device__ inline uint32_t cuda_place_of_cell(uint32_t x[3]) {
  enum { TOP = 1 << (CUDA_CURVE_BITS - 1) };
  for (uint32_t q = TOP; q > 1; q >>= 1) {
    for (int axis = 0; axis < 3; axis++) {
      uint32_t flipped = (x[axis] & q) != 0 ? q - 1 : 0, exchanged = flipped != 0 ? 0 : (x[0] ^ x[axis]) & (q - 1);
      x[0] ^= flipped ^ exchanged;
      x[axis] ^= exchanged;
    }
  }
  x[1] ^= x[0];
  x[2] ^= x[1];
  uint32_t turned = 0;
  for (uint32_t q = TOP; q > 1; q >>= 1) turned ^= (x[2] & q) != 0 ? q - 1 : 0;
  return cuda_curve_spread(x[0] ^ turned) << 2 | cuda_curve_spread(x[1] ^ turned) << 1 |
         cuda_curve_spread(x[2] ^ turned);
}

// Cells are cubes; the longest side of the box has 2^CUDA_CURVE_BITS of them.
static __device__ inline uint32_t cuda_place_on_curve(const float low[3], const float high[3], const float *row) {
  float side = 0.0f;
  uint32_t cell[3];
  for (int axis = 0; axis < 3; axis++) side = fmaxf(side, high[axis] - low[axis]);
  float scale = (float)(1 << CUDA_CURVE_BITS) / side;
  for (int axis = 0; axis < 3; axis++) {
    float along = (row[axis] - low[axis]) * scale;  // may be NaN if `side` is 0 or infinite
    cell[axis] = along > 0.0f ? (uint32_t)fminf(along, (float)((1 << CUDA_CURVE_BITS) - 1)) : 0;
  }
  return cuda_place_of_cell(cell);
}

#endif
