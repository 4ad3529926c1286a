// What every job on a CPU lane uses: the lane, its scratch, sorting.
//
// A lane, and everything in it, belongs to one thread at a time.
#ifndef VOXELD_CPU_BASE_H
#define VOXELD_CPU_BASE_H

#include "kernels/clock.h"
#include "kernels/cpu/base/cell_index.h"
#include "kernels/kernels.h"

// ---- scratch: one block of memory of a lane, which each job cuts into its arrays ------------------------------------
//
// A job lays out its arrays twice with the same code. The first pass uses an empty arena, which only adds up the sizes.
// After cpu_arena_reserve, the second pass uses the lane's arena. The memory starts as zeros and is never cleared
// again: a new array holds what earlier jobs left there.

struct cpu_arena {
  unsigned char *memory;  // NULL: the arena only measures
  size_t bytes;           // of memory
  size_t used;            // SIZE_MAX after an overflow
};

// Takes `count` items of `size` bytes, aligned to a cache line. Returns NULL from an arena without memory.
void *cpu_arena_take(struct cpu_arena *arena, uint64_t count, size_t size);

// Frees all arrays that were taken, and makes room for all arrays that `measured` took. VX_OUT_OF_MEMORY if memory is
// short, or if the job's caller does not allow it.
VX_WARN_UNUSED enum vx_status cpu_arena_reserve(struct cpu_arena *arena, const struct cpu_arena *measured,
                                                const struct vx_job *job, struct error *error);

// Tells the system that all of the memory will be written, so it may use large pages.
void cpu_arena_fill(struct cpu_arena *arena);

// Gives back the memory beyond `keep` bytes, a multiple of the page size. The rest keeps its contents.
void cpu_arena_trim(struct cpu_arena *arena, size_t keep);

// ---- the lane -------------------------------------------------------------------------------------------------------

struct vx_lane {
  struct vx_input points;  // what an operation on points reads: the job's points, or the rows that its chain left
  uint64_t seed[2];        // seed of the cell indexes' hash
  uint32_t base;           // base of the next cell index
  struct cpu_arena scratch;
  struct cpu_arena chain;    // the rows of a chain of steps
  struct cpu_arena between;  // what the stages of one job leave for each other
  struct cpu_arena levels;   // the cells of a sparse convolution's levels
  struct cpu_arena sparse;   // the lists of neighbours and the features of a sparse convolution
};

// Gives an index its seed and its base. Then raises the base for the next index by `most`, the maximum number of keys
// of this index.
void cpu_seed_index(struct vx_lane *lane, int64_t most, struct cpu_cell_index *index);

// Makes room in a helper's lane for all arrays that `measured` took. VX_STOPPED if the helper is stopped already, and
// VX_OUT_OF_MEMORY if they need more than VX_SCRATCH_KEPT: in both cases the lane's scratch does not change.
// VX_OUT_OF_MEMORY also if memory is short.
VX_WARN_UNUSED enum vx_status cpu_reserve_for_help(const struct vx_worker *worker, const struct cpu_arena *measured,
                                                   struct error *error);

// The first `count` values of the lane's points as float32. Narrow values are widened into `widened`.
const float *cpu_float_points(const struct vx_lane *lane, struct vx_stop *stop, int64_t count, float *widened);

// ---- sorting of keys with numbers, in scratch memory ----------------------------------------------------------------

struct cpu_keyed {
  uint64_t key;  // has at most the number of bits given to cpu_sort
  int32_t number;
};

// Sorts `items` by ascending key. `spare` has the same length. Returns the array with the result: `items` or `spare`.
struct cpu_keyed *cpu_sort(struct vx_stop *stop, struct cpu_keyed *items, struct cpu_keyed *spare, int32_t count,
                           int key_bits);

// The same for 64-bit words. The key of a word is its `key_bits` bits from bit `low_bit` on. Faster, since a word has
// half the bytes of a struct cpu_keyed.
uint64_t *cpu_sort_words(struct vx_stop *stop, uint64_t *words, uint64_t *spare, int32_t count, int low_bit,
                         int key_bits);

#endif
