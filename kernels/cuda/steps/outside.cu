// The last step of a job that serializes: drops the rows whose cell is outside (kernels/serialize.h).
#include "kernels/cuda/steps/steps.cuh"

enum { BLOCK = 256 };

static __global__ void __launch_bounds__(BLOCK)
    outside_kernel(const __grid_constant__ struct cuda_chain_rows r,
                   const __grid_constant__ struct vx_serial_lattice lattice) {
  cuda_begin_step();
  cuda_wait();
  uint64_t row = (uint64_t)blockIdx.x * BLOCK + threadIdx.x;
  int32_t cell[3];
  if (row < r.clouds.num_points && cuda_is_left(r.points[row * r.columns]) &&
      !vx_serial_cell(&lattice, r.points + row * r.columns, cell))
    cuda_drop(r, (uint32_t)row, VX_FATE_OUT_OF_LATTICE);
  __syncthreads();
  cuda_add_fates(r, r.number, cuda_own_fates());
}

enum vx_status cuda_drop_outside(struct cuda_chain *chain, struct error *error) {
  struct vx_serial_lattice lattice = {};
  (void)vx_serial_lattice_of(&chain->run.job->params.serialize, &lattice);  // the job was checked
  return cuda_launch("outside_kernel", outside_kernel, cuda_blocks(chain->rows.clouds.num_points, BLOCK), BLOCK, 0,
                     &chain->run, error, chain->rows, lattice);
}
