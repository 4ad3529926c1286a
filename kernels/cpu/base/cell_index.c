// See cell_index.h.
#include "kernels/cpu/base/cell_index.h"

// 2^20 slots are 4 MiB, enough for the pillars of a whole range. For few keys, a hash table in the processor's cache is
// faster than a large dense table in memory.
enum { DENSE_BITS = 20, DENSE_SLOTS = 128 };  // of dense tables: most bits of a key, most slots per key

static bool is_dense(int64_t most, int key_bits) {
  return key_bits <= DENSE_BITS && most >= (INT64_C(1) << key_bits) / DENSE_SLOTS;
}

uint64_t cpu_cell_index_slots(int64_t most, int key_bits) {
  if (is_dense(most, key_bits)) return UINT64_C(1) << key_bits;
  uint64_t slots = 2;
  while (slots < 2 * (uint64_t)most) slots *= 2;
  return slots;
}

void cpu_cell_index_start(struct cpu_cell_index *index, int64_t most, int key_bits) {
  index->count = 0;
  index->dense = is_dense(most, key_bits);
  index->mask = cpu_cell_index_slots(most, key_bits) - 1;
}
