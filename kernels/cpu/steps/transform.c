// The step `transform` on the CPU.
#include <string.h>

#include "kernels/cpu/steps/steps.h"
#include "kernels/parallel_for.h"
#include "kernels/point_transform.h"

struct moving {
  const struct cpu_chain *chain;
  const struct vx_transform *params;
};

static enum vx_status move_slice(void *ctx, const struct vx_worker *worker, int32_t task, struct error *error) {
  const struct moving *moving = ctx;
  const struct vx_transform params = *moving->params;  // copies, because stores of bytes could alias the originals
  const struct cpu_chain chain = *moving->chain;
  const struct cpu_slice slice = chain.slices[task];
  float matrix[VX_MATRIX_VALUES];
  memcpy(matrix, vx_matrix_of(&params, slice.cloud), sizeof matrix);
  VX_EACH_ROW(worker->stop, i, slice.begin, slice.end) {
    float *row = cpu_row_left(&chain, i), moved[3];
    if (!row) continue;
    vx_move(matrix, row[0], row[1], row[2], moved);
    enum vx_fate fate = vx_fate_of_moved(&params, params.cuts, moved);
    memcpy(row, moved, sizeof moved);
    if (fate != VX_FATE_KEPT) cpu_drop(&chain, i, fate);
  }
  return vx_stop_status(worker->stop, error);
}

enum vx_status cpu_step_transform(struct cpu_chain *chain, const struct vx_step *step, struct error *error) {
  struct moving moving = {chain, &step->params.transform};
  const struct vx_tasks tasks = {chain->num_slices, move_slice, &moving};
  return vx_parallel_for(chain->job, chain->lane, &tasks, error);
}
