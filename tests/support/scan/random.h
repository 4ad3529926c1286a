// Random numbers: SplitMix64 (Steele, Lea and Flood, 2014).
#ifndef VOXELD_TESTS_SCAN_RANDOM_H
#define VOXELD_TESTS_SCAN_RANDOM_H

#include <stdint.h>

static inline uint64_t next_u64(uint64_t *state) {
  uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);
  z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
  return z ^ (z >> 31);
}

static inline double uniform(uint64_t *state, double low, double high) {
  return low + (high - low) * ((double)(next_u64(state) >> 11) * 0x1p-53);
}

// Nearly normal, standard deviation 1, bounded. Without log and cos, whose last bit differs between libraries.
static inline double normal(uint64_t *state) {
  double sum = 0.0;
  for (int i = 0; i < 4; i++) sum += uniform(state, -0.5, 0.5);
  return sum * 1.7320508075688772;  // the sum's variance is 4/12
}

#endif
