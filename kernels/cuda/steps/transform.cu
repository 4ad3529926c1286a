// The step `transform` on a GPU. As the first step of a chain it has no kernel: see steps.cu, and insert.cu of
// voxelize/.
#include "kernels/cuda/base/moving.cuh"
#include "kernels/cuda/steps/steps.cuh"

enum { BLOCK = 256 };

static __global__ void __launch_bounds__(BLOCK) transform_kernel(const __grid_constant__ struct cuda_chain_rows r,
                                                                 const __grid_constant__ struct cuda_moving moving) {
  cuda_wait();
  uint64_t row = (uint64_t)blockIdx.x * BLOCK + threadIdx.x;
  const float *at = r.points + row * r.columns;
  if (row < r.clouds.num_points && cuda_is_left(at[0])) {
    enum vx_fate fate = cuda_move(r, moving, (uint32_t)row, {at[0], at[1], at[2]});
    if (fate != VX_FATE_KEPT) cuda_drop(r, (uint32_t)row, fate);
  }
  cuda_end_step(r);
}

enum vx_status cuda_step_transform(struct cuda_chain *chain, const struct vx_step *step, struct error *error) {
  struct cuda_moving moving = {};
  CUDA_TRY(cuda_plan_moving(chain, &step->params.transform, &moving, error));
  return cuda_launch("transform_kernel", transform_kernel, cuda_blocks(chain->rows.clouds.num_points, BLOCK), BLOCK, 0,
                     &chain->run, error, chain->rows, moving);
}
