// The lane's table of cells: a hash table with linear probing, or in small grids a slot for each cell.
//
// One compare-and-swap claims a slot. The table holds whole keys, so a slot with a key is that cell's slot. All slots
// are free when a job begins (see clean_kernel).
#ifndef VOXELD_CUDA_TABLE_CUH
#define VOXELD_CUDA_TABLE_CUH

#include "kernels/cuda/base/run.cuh"

struct cuda_table {
  uint64_t *keys;  // NULL: a cell's slot is its key
  struct cuda_cell *cells;
  uint64_t slot_mask;
  uint64_t seed[2];
  uint32_t *unplaced;
};

static inline uint64_t cuda_power_of_two(uint64_t least) {
  uint64_t power = 2;
  while (power < least) {
    power *= 2;
  }
  return power;
}

// Slots of a hash table for that many items: at least half of it stays empty, and more if they are few, so that probes
// are short. Above 2^30 items the table cannot grow further, as a slot's number has 32 bits.
static inline uint64_t cuda_hashed_slots(uint64_t items) {
  uint64_t slots = cuda_power_of_two((items < 1 << 19 ? 4 : 2) * items);
  return slots > UINT64_C(1) << 31 ? UINT64_C(1) << 31 : slots;
}

static inline struct cuda_table cuda_table_of(const struct cuda_run *run) {
  const uint64_t *seed = run->lane->seed;
  return {run->keys, run->cells, run->table_slots - 1, {seed[0], seed[1]}, &run->tally->unplaced};
}

// Where the search for a cell begins.
static __device__ inline uint64_t cuda_first_slot(const struct cuda_table &table, uint64_t key) {
  uint64_t a = key ^ table.seed[0], b = table.seed[1] | 1;
  return (a * b) ^ __umul64hi(a, b);
}

// The slot of a cell. Takes at most as many steps as there are slots; some slot is always free.
static __device__ inline uint32_t cuda_slot_of(const struct cuda_table &table, uint64_t key) {
  if (table.keys == NULL) {
    return (uint32_t)key;
  }
  uint64_t slot = cuda_first_slot(table, key);
  for (uint64_t step = 0; step <= table.slot_mask; step++, slot++) {
    slot &= table.slot_mask;
    uint64_t before = atomicCAS((unsigned long long *)&table.keys[slot], CUDA_NO_KEY, key);
    if (before == CUDA_NO_KEY || before == key) {
      return (uint32_t)slot;
    }
  }
  atomicAdd(table.unplaced, 1);
  return CUDA_NO_SLOT;
}

// The same for a table that no longer changes; CUDA_NO_SLOT if the cell has none.
static __device__ inline uint32_t cuda_look_up(const struct cuda_table &table, uint64_t key) {
  uint64_t slot = cuda_first_slot(table, key);
  for (uint64_t step = 0; step <= table.slot_mask; step++, slot++) {
    slot &= table.slot_mask;
    uint64_t here = table.keys[slot];
    if (here == key || here == CUDA_NO_KEY) {
      return here == key ? (uint32_t)slot : CUDA_NO_SLOT;
    }
  }
  return CUDA_NO_SLOT;
}

#endif
