// What the step `transform` does with a row, for any kernel: a chain that begins with the step moves its rows as they
// arrive.
#ifndef VOXELD_CUDA_MOVING_CUH
#define VOXELD_CUDA_MOVING_CUH

#include "kernels/cuda/base/chain.cuh"
#include "kernels/point_transform.h"

// The parameters as a kernel sees them: one matrix for all clouds, or one per cloud in the device's memory.
struct cuda_moving {
  struct vx_transform params;
  struct vx_box cuts[VX_MAX_CUTS];
  float one[VX_MATRIX_VALUES];
  const float *each;  // [num_clouds, 16], or NULL
};

// Moves a row that is left, from x, y, z. Returns its fate.
static __device__ inline enum vx_fate cuda_move(const struct cuda_chain_rows &r, const struct cuda_moving &moving,
                                                uint32_t row, float x, float y, float z) {
  const float *matrix =
      moving.each ? moving.each + (uint64_t)cuda_cloud_of_point(r.clouds, row) * VX_MATRIX_VALUES : moving.one;
  float moved[3], *at = r.points + (uint64_t)row * r.columns;
  vx_move(matrix, x, y, z, moved);
  for (int axis = 0; axis < 3; axis++) at[axis] = moved[axis];
  return vx_fate_of_moved(&moving.params, moving.cuts, moved);
}

// Fills the parameters. Brings the matrices to the device if there are several.
VX_WARN_UNUSED enum vx_status cuda_plan_moving(struct cuda_chain *chain, const struct vx_transform *params,
                                               struct cuda_moving *moving, struct error *error);

#endif
