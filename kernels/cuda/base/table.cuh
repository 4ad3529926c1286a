// Hash tables of keys, with linear probing. The lane's table holds cells; in small grids it has a slot for each cell.
// The block filter has a table of its own.
//
// One compare-and-swap claims a slot. The table holds whole keys, so a slot with a key belongs to that key. All slots
// of the lane's table are free when a job begins (see clean_kernel).
#ifndef VOXELD_CUDA_TABLE_CUH
#define VOXELD_CUDA_TABLE_CUH

#include "kernels/cuda/base/run.cuh"

// The slots of a hash table: a power of two. Above 2^30 items the table stops growing, because a slot number has 32
// bits.
static inline uint64_t cuda_slots(uint64_t least) {
  uint64_t slots = 2;
  while (slots < least && slots < UINT64_C(1) << 31) slots *= 2;
  return slots;
}

// The slots for so many cells: at least half stay empty. With few cells more stay empty, so that probes are short.
static inline uint64_t cuda_cell_slots(uint64_t cells) { return cuda_slots((cells < 1 << 19 ? 4 : 2) * cells); }

// Where the search for a key begins.
static __device__ inline uint64_t cuda_first_slot(const struct cuda_table &table, uint64_t key) {
  uint64_t a = key ^ table.seed[0], b = table.seed[1] | 1;
  return (a * b) ^ __umul64hi(a, b);
}

// Finds the slot of a key; a new key claims one. Takes at most as many steps as there are slots; some slot is always
// free.
static __device__ inline uint32_t cuda_slot_of(const struct cuda_table &table, uint64_t key) {
  if (!table.keys) return (uint32_t)key;
  uint64_t slot = cuda_first_slot(table, key), mask = table.slots - 1;
  for (uint64_t step = 0; step <= mask; step++, slot++) {
    slot &= mask;
    uint64_t before = atomicCAS((unsigned long long *)&table.keys[slot], CUDA_NO_KEY, key);
    if (before == CUDA_NO_KEY || before == key) return (uint32_t)slot;
  }
  atomicAdd(table.unplaced, 1);
  return CUDA_NO_SLOT;
}

// The same for a table that no longer changes; CUDA_NO_SLOT if the key is not in it.
static __device__ inline uint32_t cuda_look_up(const struct cuda_table &table, uint64_t key) {
  uint64_t slot = cuda_first_slot(table, key), mask = table.slots - 1;
  for (uint64_t step = 0; step <= mask; step++, slot++) {
    slot &= mask;
    uint64_t here = table.keys[slot];
    if (here == key || here == CUDA_NO_KEY) return here == key ? (uint32_t)slot : CUDA_NO_SLOT;
  }
  return CUDA_NO_SLOT;
}

#endif
