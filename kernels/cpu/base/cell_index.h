// The map from cells to voxels: a set of 64-bit keys, numbered in the order of first appearance, with counts of
// appearances. An index belongs to one thread at a time; its arrays are the caller's scratch.
//
// It is a sparse set (Briggs and Torczon): `table` is never cleared. A slot is in use if it names an entry below
// `count` that names the slot; else it is empty, whatever it holds. So count = 0 empties the index.
//
// A slot holds a number plus `base`. A new base for each cloud makes old slots rarely look like numbers below `count`.
// The result does not depend on the base.
//
// Dense: with few possible keys, a key is its own slot. Otherwise the key is hashed, with linear probing. The hash has
// a seed for each lane, so that nobody can prepare a scan whose cells collide. At most half of the slots are in use, so
// a probe ends after at most `count` steps.
#ifndef VOXELD_CPU_CELL_INDEX_H
#define VOXELD_CPU_CELL_INDEX_H

#include <stdbool.h>
#include <stdint.h>

struct cpu_cell_entry {
  uint64_t key;
  uint32_t slot;  // of the table, with this entry's number
  int32_t hits;   // appearances
};

struct cpu_cell_index {
  uint32_t *table;                 // [cpu_cell_index_slots()]
  struct cpu_cell_entry *entries;  // [most]
  int32_t count;
  bool dense;
  uint32_t base;
  uint64_t mask;  // slots - 1
  uint64_t seed[2];
};

// A power of two, for up to `most` different keys of `key_bits` bits. Fewer keys need no more slots.
uint64_t cpu_cell_index_slots(int64_t most, int key_bits);

// Empties the index, for up to `most` different keys.
void cpu_cell_index_start(struct cpu_cell_index *index, int64_t most, int key_bits);

// Where the search for a key begins.
static inline uint32_t cpu_cell_index_home(const struct cpu_cell_index *index, uint64_t key) {
  if (index->dense) return (uint32_t)key;
  __extension__ typedef unsigned __int128 wide;
  wide product = (wide)(key ^ index->seed[0]) * (index->seed[1] | 1);
  return (uint32_t)(((uint64_t)product ^ (uint64_t)(product >> 64)) & index->mask);
}

// Adds `hits` appearances of `key`, whose home is `slot`. Returns the number of the key; a new key gets the next one.
static inline int32_t cpu_cell_index_add_many(struct cpu_cell_index *index, uint64_t key, uint32_t slot, int32_t hits) {
  for (;; slot = (uint32_t)((slot + UINT64_C(1)) & index->mask)) {
    uint32_t number = index->table[slot] - index->base;
    if (number < (uint32_t)index->count) {
      struct cpu_cell_entry *entry = &index->entries[number];
      if (entry->key == key) {
        entry->hits += hits;
        return (int32_t)number;
      }
      if (entry->slot == slot) continue;  // taken by another key
    }
    index->table[slot] = index->base + (uint32_t)index->count;
    index->entries[index->count] = (struct cpu_cell_entry){.key = key, .slot = slot, .hits = hits};
    return index->count++;
  }
}

static inline int32_t cpu_cell_index_add(struct cpu_cell_index *index, uint64_t key, uint32_t slot) {
  return cpu_cell_index_add_many(index, key, slot, 1);
}

#endif
