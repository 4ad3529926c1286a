// Which voxel a cell is: a set of 64-bit keys, numbered 0, 1, 2, ... in the order of their first appearance, each with
// the number of its appearances.
//
// It is a sparse set (Briggs and Torczon): `table` is never cleared and carries no stamps. A slot is in use only if it
// names an entry below `count` and that entry names the slot. Any other slot is empty: it holds what an earlier cloud
// or job, or another array in the same memory, left there. So emptying the index is one store: count = 0.
//
// A slot holds a number plus `base`. If each cloud has another base, what an earlier one left in a slot is hardly ever
// a number below `count`, so no entry is looked at for it. Any base is right.
//
// If there are few possible keys for those to be found, the slot of a key is the key itself (dense). Otherwise the slot
// is found by hashing, with linear probing. The hash is seeded per lane, so nobody can prepare a scan whose cells
// collide. At most half of the slots are in use, so a probe ends after at most `count` steps.
#ifndef VOXELD_CPU_CELL_INDEX_H
#define VOXELD_CPU_CELL_INDEX_H

#include <stdbool.h>
#include <stdint.h>

struct cpu_cell_entry {
  uint64_t key;
  uint32_t slot;  // of the table, where this entry's number stands
  int32_t hits;   // how often the key was added
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

// Slots for up to `most` different keys of `key_bits` bits: a power of two, and for fewer keys no more.
uint64_t cpu_cell_index_slots(int64_t most, int key_bits);

// Empties the index and makes it ready for up to `most` different keys.
void cpu_cell_index_start(struct cpu_cell_index *index, int64_t most, int key_bits);

// The slot at which the search for a key begins.
static inline uint32_t cpu_cell_index_home(const struct cpu_cell_index *index, uint64_t key) {
  if (index->dense) return (uint32_t)key;
  __extension__ typedef unsigned __int128 wide;
  wide product = (wide)(key ^ index->seed[0]) * (index->seed[1] | 1);
  return (uint32_t)(((uint64_t)product ^ (uint64_t)(product >> 64)) & index->mask);
}

// The number of `key`, whose home is `slot`, after `hits` appearances more; the next free number if it is new.
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
