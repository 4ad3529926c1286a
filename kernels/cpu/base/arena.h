// The scratch of a lane: one block of memory that each job cuts into its arrays.
//
// A job lays out its arrays twice with the same code: first over an empty arena, which only adds up their sizes, then,
// after cpu_arena_reserve, over the lane's arena. The memory starts as zeros and is never cleared again: a new array
// holds what earlier jobs left there. An arena belongs to one lane, so to one thread at a time.
#ifndef VOXELD_CPU_ARENA_H
#define VOXELD_CPU_ARENA_H

#include "kernels/kernels.h"

struct cpu_arena {
  unsigned char *memory;  // NULL: takes are only measured
  size_t bytes;           // of memory
  size_t used;            // SIZE_MAX once a size did not fit
};

// `count` items of `size` bytes, aligned to a cache line. NULL from an arena without memory.
void *cpu_arena_take(struct cpu_arena *arena, uint64_t count, size_t size);

// Forgets what was taken and makes room for all that `measured` took. VX_OUT_OF_MEMORY if there is not enough memory,
// or the job's caller does not allow it.
VX_WARN_UNUSED enum vx_status cpu_arena_reserve(struct cpu_arena *arena, const struct cpu_arena *measured,
                                                const struct vx_job *job, struct error *error);

// Says that the memory will be written as a whole: the system then brings it in large pages if it has some.
void cpu_arena_fill(struct cpu_arena *arena);

// Gives back the memory beyond `keep` bytes, a multiple of the page size. Larger jobs find the rest as it was left.
void cpu_arena_trim(struct cpu_arena *arena, size_t keep);

#endif
