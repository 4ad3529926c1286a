// The step `transform` on a GPU.
#include <string.h>

#include "kernels/cuda/base/transfer.cuh"
#include "kernels/cuda/steps/steps.cuh"
#include "kernels/point_transform.h"

enum { BLOCK = 256 };

// The parameters as the kernel sees them: one matrix for all clouds, or one per cloud in the device's memory.
struct moving {
  struct vx_transform params;
  struct vx_box cuts[VX_MAX_CUTS];
  float one[VX_MATRIX_VALUES];
  const float *each;  // [num_clouds, 16], or NULL
};

static __global__ void __launch_bounds__(BLOCK)
    transform_kernel(const __grid_constant__ struct cuda_chain_rows r, const __grid_constant__ struct moving moving) {
  cuda_wait();
  uint32_t step = gridDim.x * BLOCK;
  for (uint64_t i = blockIdx.x * BLOCK + threadIdx.x; i < r.clouds.num_points; i += step) {
    float *row = r.points + i * r.columns;
    if (!cuda_is_left(row[0])) continue;
    uint32_t point = (uint32_t)i;
    const float *matrix =
        moving.each ? moving.each + (uint64_t)cuda_cloud_of_point(r.clouds, point) * VX_MATRIX_VALUES : moving.one;
    float moved[3];
    vx_move(matrix, row[0], row[1], row[2], moved);
    for (int axis = 0; axis < 3; axis++) row[axis] = moved[axis];
    enum vx_fate fate = vx_fate_of_moved(&moving.params, moving.cuts, moved);
    if (fate != VX_FATE_KEPT) cuda_drop(r, point, fate);
  }
  cuda_end_step(r);
}

// Brings the matrices of the clouds to the device. The device reads the host's commands later, so each step of a chain
// has its own part of them. If no room is left, waits for the steps before it.
static enum vx_status bring_matrices(struct cuda_chain *chain, struct moving *moving, struct error *error) {
  const struct vx_transform *params = &moving->params;
  memcpy(moving->one, vx_matrix_of(params, 0), sizeof moving->one);
  if (params->num_matrices < 2) return VX_OK;
  uint32_t count = (uint32_t)params->num_matrices, values = count * VX_MATRIX_VALUES;
  if (chain->host_matrices + count > VX_MAX_CLOUDS) {
    CUDA_CALL(cudaStreamSynchronize(chain->run.stream), error);
    chain->host_matrices = 0;
  }
  uint32_t from = chain->host_matrices * VX_MATRIX_VALUES, to = chain->used_matrices * VX_MATRIX_VALUES;
  memcpy(chain->run.lane->commands->matrices + from, params->matrices, values * sizeof(float));
  CUDA_TRY(cuda_fetch(&chain->run, chain->run.commands->matrices + from, chain->matrices + to, values, error));
  moving->each = chain->matrices + to;
  chain->host_matrices += count;
  chain->used_matrices += count;
  return VX_OK;
}

enum vx_status cuda_step_transform(struct cuda_chain *chain, const struct vx_step *step, struct error *error) {
  struct moving moving = {};
  moving.params = step->params.transform;
  for (int32_t i = 0; i < moving.params.num_cuts; i++) moving.cuts[i] = moving.params.cuts[i];
  CUDA_TRY(bring_matrices(chain, &moving, error));
  unsigned blocks = cuda_looping_blocks(&chain->run, chain->rows.clouds.num_points, BLOCK, 8);
  return cuda_launch("transform_kernel", transform_kernel, blocks, BLOCK, 0, &chain->run, error, chain->rows, moving);
}
