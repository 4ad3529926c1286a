// See base.h.
#include "kernels/cpu/base/base.h"

#include <stdio.h>
#include <string.h>

void cpu_seed_index(struct vx_lane *lane, int64_t most, struct cpu_cell_index *index) {
  memcpy(index->seed, lane->seed, sizeof index->seed);
  index->base = lane->base;
  lane->base += (uint32_t)most;
}

static bool allow_nothing(void *ctx, size_t bytes) {
  (void)ctx, (void)bytes;
  return false;
}

enum vx_status cpu_reserve_for_help(const struct vx_worker *worker, const struct cpu_arena *measured,
                                    struct error *error) {
  static const struct vx_caller caller = {.scratch = allow_nothing};
  static const struct vx_job nobody = {.caller = &caller};
  if (vx_stop_now(worker->stop)) return vx_stop_status(worker->stop, error);
  // cpu_arena_reserve would also refuse, but it would free the pages, which the lane's next job would fault in again.
  if (measured->used > VX_SCRATCH_KEPT)
    return vx_fail(error, VX_OUT_OF_MEMORY, "%zu bytes of scratch are over the limit of a helper", measured->used);
  return cpu_arena_reserve(&worker->lane->scratch, measured, &nobody, error);
}

const float *cpu_float_points(const struct vx_lane *lane, struct vx_stop *stop, int64_t count, float *widened) {
  const struct vx_input *points = &lane->points;
  if (!vx_is_narrow(points->dtype)) return points->data;
  for (int64_t begin = 0, end; (end = vx_stride_end(stop, begin, count)) > begin; begin = end)
    vx_widen(points->dtype, points->data, begin, end - begin, widened + begin);
  return widened;
}
