// A lane of the CPU, and what every job on it uses. A lane belongs to one thread at a time.
#ifndef VOXELD_CPU_LANE_H
#define VOXELD_CPU_LANE_H

#include "kernels/cpu/base/arena.h"
#include "kernels/cpu/base/cell_index.h"

struct vx_lane {
  uint64_t seed[2];  // of the cell indexes
  uint32_t base;     // of the next of them
  struct cpu_arena scratch;
  struct cpu_arena between;  // what the stages of one job leave to each other
};

int64_t cpu_now_ns(void);

// Gives an index its seed and its base, which is as far from the next one's as it may have keys: `most`.
void cpu_seed_index(struct vx_lane *lane, int64_t most, struct cpu_cell_index *index);

// Makes room in the lane of a hand that helps, for all that `measured` took. VX_STOPPED if it is stopped already,
// VX_OUT_OF_MEMORY beyond VX_SCRATCH_KEPT; both leave the lane's scratch as it is.
VX_WARN_UNUSED enum vx_status cpu_reserve_for_help(const struct vx_hand *hand, const struct cpu_arena *measured,
                                                   struct error *error);

// The first `count` values of the job's points as float32. Narrow ones are widened into `widened`.
const float *cpu_float_points(const struct vx_job *job, int64_t count, float *widened);

#endif
