// Hash tables of keys, with linear probing: the lane's table of cells, which in small grids has a slot for each cell,
// and the block filter's table.
//
// A slot holds a whole key, so one compare-and-swap both claims the slot and writes its key. The lane's table is empty
// when a job begins (clean_kernel).
#ifndef VOXELD_CUDA_TABLE_CUH
#define VOXELD_CUDA_TABLE_CUH

#include "kernels/cuda/base/run.cuh"

// The slots of a hash table: a power of two, at least `least`, but at most 2^31, because a slot number has 32 bits.
static inline uint64_t cuda_slots(uint64_t least) {
  uint64_t slots = 2;
  while (slots < least && slots < UINT64_C(1) << 31) slots *= 2;
  return slots;
}

// The slots for this many cells. Up to 2^30 cells, at least half stay empty; with few cells three quarters, so that
// probes are short.
static inline uint64_t cuda_cell_slots(uint64_t cells) { return cuda_slots((cells < 1 << 19 ? 4 : 2) * cells); }

// Where the search for a key begins.
static __device__ inline uint64_t cuda_first_slot(const struct cuda_table &table, uint64_t key) {
  uint64_t a = key ^ table.seed[0], b = table.seed[1] | 1;
  return (a * b) ^ __umul64hi(a, b);
}

// Finds the slot of a key; a new key claims one. CUDA_NO_SLOT if no slot is free, which `unplaced` counts.
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

// Adds points to a cell; `point` is the first of them. Returns the previous count. Atomic operations take most of the
// time, so one both adds the points and returns the cell's first point so far, which usually stays. The hits are the
// upper half of the word, so that their overflow does not change the point.
static __device__ inline uint32_t cuda_count_hits(struct cuda_cell *cell, uint32_t point, uint32_t points) {
  uint64_t had = atomicAdd((unsigned long long *)cell, (unsigned long long)points << 32);  // little-endian: the hits
  if (point < (uint32_t)had) atomicMin(&cell->first, point);
  return (uint32_t)(had >> 32) + 1;
}

// Called by those threads of a warp that have a point in a cell (the mask `inside`). Finds the slot and the rank of
// each point. `peers`: the threads with points in the same cell. The first peer, which has the first point, acts for
// all.
template <typename function>
static __device__ inline void cuda_place(struct cuda_cell *cells, uint32_t *slots, uint32_t *ranks, uint32_t inside,
                                         uint32_t peers, uint32_t point, const function &find_slot) {
  uint32_t lane = threadIdx.x % 32, leader = __ffs(peers) - 1, slot = CUDA_NO_SLOT, before = 0;
  if (lane == leader) {
    slot = find_slot();
    if (slot != CUDA_NO_SLOT) before = cuda_count_hits(&cells[slot], point, __popc(peers));
  }
  slot = __shfl_sync(inside, slot, leader);
  before = __shfl_sync(inside, before, leader);
  slots[point] = slot;
  ranks[point] = before + __popc(peers & ((1u << lane) - 1));
}

#endif
