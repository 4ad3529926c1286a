// How much of the memory budget a buffer takes. Any thread.
#ifndef VOXELD_BUFFER_SIZE_H
#define VOXELD_BUFFER_SIZE_H

#include <stddef.h>

enum { BUFFER_SMALLEST = 16, BUFFER_TIERS = 22 };  // tiers of 2^16 .. 2^37 bytes

static inline size_t buffer_tier_size(int tier) { return (size_t)1 << (tier + BUFFER_SMALLEST); }

// The smallest tier whose buffers have `size` bytes; BUFFER_TIERS: none.
static inline int buffer_tier_of(size_t size) {
  int tier = 0;
  while (tier < BUFFER_TIERS && buffer_tier_size(tier) < size) tier++;
  return tier;
}

// Bytes that a buffer for `size` bytes takes; 0: no buffer is so large.
static inline size_t buffer_capacity(size_t size) {
  int tier = buffer_tier_of(size);
  return tier == BUFFER_TIERS ? 0 : buffer_tier_size(tier);
}

#endif
