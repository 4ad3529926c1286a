// What every job on a CPU lane uses: the lane, its scratch, sorting. A lane, and everything in it, belongs to one
// thread at a time.
#ifndef VOXELD_CPU_BASE_H
#define VOXELD_CPU_BASE_H

#include "kernels/clock.h"
#include "kernels/cpu/base/cell_index.h"
#include "kernels/kernels.h"

// ---- scratch: a block of memory of a lane, cut into the arrays of each job ------------------------------------------
//
// A job lays out its arrays twice with the same code: first in an empty arena, which adds up their sizes, then, after
// cpu_arena_reserve, in the lane's arena. The memory starts as zeros and is never cleared: new arrays have leftovers of
// earlier jobs.

struct cpu_arena {
  unsigned char *memory;  // NULL: the arena only measures
  size_t bytes;           // of memory
  size_t used;            // SIZE_MAX after an overflow
};

// `count` items of `size` bytes, aligned to a cache line. NULL from an arena without memory.
void *cpu_arena_take(struct cpu_arena *arena, uint64_t count, size_t size);

// Frees all taken arrays, and makes room for the arrays of `measured`. VX_OUT_OF_MEMORY if memory is short, or if the
// job's caller does not allow it.
VX_WARN_UNUSED enum vx_status cpu_arena_reserve(struct cpu_arena *arena, const struct cpu_arena *measured,
                                                const struct vx_job *job, struct error *error);

// Lets the system use large pages, since all of the memory will be written.
void cpu_arena_fill(struct cpu_arena *arena);

// Gives back the memory beyond `keep` bytes, a multiple of the page size. The rest keeps its contents.
void cpu_arena_trim(struct cpu_arena *arena, size_t keep);

// ---- the lane -------------------------------------------------------------------------------------------------------

struct vx_lane {
  struct vx_input points;  // for operations on points: the job's points, or the rows that its chain left
  uint64_t seed[2];        // of the cell indexes' hash
  uint32_t base;           // of the next cell index
  struct cpu_arena scratch;
  struct cpu_arena chain;    // rows of a chain of steps
  struct cpu_arena between;  // what stages of a job leave for later stages
  struct cpu_arena levels;   // cells of a sparse convolution's levels
  struct cpu_arena sparse;   // lists of neighbours and features of a sparse convolution
};

// Gives an index its seed and base. Raises the lane's base by `most`, the most keys of this index.
void cpu_seed_index(struct vx_lane *lane, int64_t most, struct cpu_cell_index *index);

// Makes room in a helper's lane for the arrays of `measured`. VX_STOPPED if the helper is stopped, VX_OUT_OF_MEMORY if
// they need more than VX_SCRATCH_KEPT: the lane's scratch does not change then. VX_OUT_OF_MEMORY also if memory is
// short.
VX_WARN_UNUSED enum vx_status cpu_reserve_for_help(const struct vx_worker *worker, const struct cpu_arena *measured,
                                                   struct error *error);

// The first `count` values of the lane's points as float32: in place or, if they are narrow, in `widened`.
const float *cpu_float_points(const struct vx_lane *lane, struct vx_stop *stop, int64_t count, float *widened);

// ---- sorting of keys with numbers, in scratch memory ----------------------------------------------------------------

struct cpu_keyed {
  uint64_t key;  // of at most cpu_sort's `key_bits` bits
  int32_t number;
};

// Stable, by ascending key. `spare` has the length of `items`. Returns the sorted one of the two.
struct cpu_keyed *cpu_sort(struct vx_stop *stop, struct cpu_keyed *items, struct cpu_keyed *spare, int32_t count,
                           int key_bits);

// The same for 64-bit words, whose keys are `key_bits` bits from bit `low_bit` on. Faster, since a word has half the
// bytes of a struct cpu_keyed.
uint64_t *cpu_sort_words(struct vx_stop *stop, uint64_t *words, uint64_t *spare, int32_t count, int low_bit,
                         int key_bits);

#endif
