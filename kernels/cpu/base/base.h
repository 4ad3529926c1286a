// What every job on a lane of the CPU uses: the lane, its scratch, the clock, sorting. A lane belongs to one thread at
// a time, and so does all that is its own.
#ifndef VOXELD_CPU_BASE_H
#define VOXELD_CPU_BASE_H

#include "kernels/cpu/base/cell_index.h"
#include "kernels/kernels.h"

// ---- scratch: one block of memory of a lane, which each job cuts into its arrays ------------------------------------
//
// A job lays out its arrays twice with the same code: first over an empty arena, which only adds up their sizes, then,
// after cpu_arena_reserve, over the lane's arena. The memory starts as zeros and is never cleared again: a new array
// holds what earlier jobs left there.

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

// ---- the lane -------------------------------------------------------------------------------------------------------

struct vx_lane {
  uint64_t seed[2];  // of the cell indexes
  uint32_t base;     // of the next of them
  struct cpu_arena scratch;
  struct cpu_arena between;  // what the stages of one job leave to each other
};

int64_t cpu_now_ns(void);

// Gives an index its seed and its base, which is as far from the next one's as it may have keys: `most`.
void cpu_seed_index(struct vx_lane *lane, int64_t most, struct cpu_cell_index *index);

// Makes room in the lane of a worker that helps, for all that `measured` took. VX_STOPPED if it is stopped already,
// VX_OUT_OF_MEMORY beyond VX_SCRATCH_KEPT; both leave the lane's scratch as it is.
VX_WARN_UNUSED enum vx_status cpu_reserve_for_help(const struct vx_worker *worker, const struct cpu_arena *measured,
                                                   struct error *error);

// The first `count` values of the job's points as float32. Narrow ones are widened into `widened`.
const float *cpu_float_points(const struct vx_job *job, int64_t count, float *widened);

// ---- sorting of numbered keys, in scratch memory --------------------------------------------------------------------

struct cpu_keyed {
  uint64_t key;  // of at most the number of bits given to cpu_sort
  int32_t number;
};

// Sorts `items` by ascending key. Returns the array that holds the result: `items` or `spare`, which is as long.
struct cpu_keyed *cpu_sort(struct vx_stop *stop, struct cpu_keyed *items, struct cpu_keyed *spare, int32_t count,
                           int key_bits);

#endif
