// The last step of a job that serializes: drops the rows whose cell is outside (kernels/serialize.h).
#include "kernels/cpu/steps/steps.h"
#include "kernels/parallel_for.h"

static enum vx_status drop_slice(void *ctx, const struct vx_worker *worker, int32_t task, struct error *error) {
  const struct cpu_chain copy = *(const struct cpu_chain *)ctx, *chain = &copy;
  const struct cpu_slice *slice = &chain->slices[task];
  struct vx_serial_lattice lattice;
  (void)vx_serial_lattice_of(&chain->job->params.serialize, &lattice);  // the job was checked
  VX_EACH_ROW(worker->stop, i, slice->begin, slice->end) {
    const float *row = cpu_row_left(chain, i);
    int32_t cell[3];
    if (row && !vx_serial_cell(&lattice, row, cell)) cpu_drop(chain, i, VX_FATE_OUT_OF_LATTICE);
  }
  return vx_stop_status(worker->stop, error);
}

enum vx_status cpu_drop_outside(struct cpu_chain *chain, struct error *error) {
  const struct vx_tasks tasks = {chain->num_slices, drop_slice, chain};
  return vx_parallel_for(chain->job, chain->lane, &tasks, error);
}
