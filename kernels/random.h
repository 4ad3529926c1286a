// A random number for each seed and row, by the finalizer of splitmix64 (S. Vigna). Rows of one seed have different
// numbers. Pure function for C and CUDA.
#ifndef VOXELD_RANDOM_H
#define VOXELD_RANDOM_H

#include <stdint.h>

#include "kernels/host_device.h"

VX_SHARED uint64_t vx_random_of_row(uint64_t seed, uint64_t row) {
  uint64_t z = seed + row * UINT64_C(0x9E3779B97F4A7C15);
  z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
  z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
  return z ^ z >> 31;
}

#endif
