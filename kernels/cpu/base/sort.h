// Sorting of numbered keys, in scratch memory.
#ifndef VOXELD_CPU_SORT_H
#define VOXELD_CPU_SORT_H

#include <stdint.h>

#include "kernels/stop.h"

struct cpu_keyed {
  uint64_t key;  // of at most the number of bits given to cpu_sort
  int32_t number;
};

// Sorts `items` by ascending key. Returns the array that holds the result: `items` or `spare`, which is as long.
struct cpu_keyed *cpu_sort(struct vx_stop *stop, struct cpu_keyed *items, struct cpu_keyed *spare, int32_t count,
                           int key_bits);

#endif
