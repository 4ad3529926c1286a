// See cell_index.h.
#include "kernels/cpu/base/cell_index.h"

// A table of 2^20 slots is 4 MiB, enough for the pillars of a whole range.
enum { DENSE_BITS = 20 };

static bool is_dense(int key_bits) { return key_bits <= DENSE_BITS; }

uint64_t cpu_cell_index_slots(int64_t most, int key_bits) {
  if (is_dense(key_bits)) {
    return UINT64_C(1) << key_bits;
  }
  uint64_t slots = 2;
  while (slots < 2 * (uint64_t)most) {
    slots *= 2;
  }
  return slots;
}

void cpu_cell_index_start(struct cpu_cell_index *index, int64_t most, int key_bits) {
  index->count = 0;
  index->dense = is_dense(key_bits);
  index->mask = cpu_cell_index_slots(most, key_bits) - 1;
}
