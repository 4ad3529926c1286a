// The step `transform` for one row, in any kernel.
#ifndef VOXELD_CUDA_MOVING_CUH
#define VOXELD_CUDA_MOVING_CUH

#include "kernels/cuda/base/bring.cuh"
#include "kernels/cuda/base/chain.cuh"
#include "kernels/point_transform.h"

// One matrix for all clouds, or one for each in device memory. The cuts are last, so that the other members lie in few
// lines of the cache.
struct cuda_moving {
  const float *each;  // [num_clouds, 16], or NULL
  float one[VX_MATRIX_VALUES];
  struct vx_transform params;
  struct vx_box cuts[VX_MAX_CUTS];
};

// Moves `at`, the coordinates of a row. Returns the row's fate.
static __device__ inline enum vx_fate cuda_move_at(const struct cuda_clouds &clouds, const struct cuda_moving &moving,
                                                   uint32_t row, struct location *at) {
  const float *matrix =
      moving.each ? moving.each + (uint64_t)cuda_cloud_of_point(clouds, row) * VX_MATRIX_VALUES : moving.one;
  float moved[3];
  vx_move(matrix, at->x, at->y, at->z, moved);
  *at = {moved[0], moved[1], moved[2]};
  return vx_fate_of_moved(&moving.params, moving.cuts, moved);
}

// The same for a row of the chain. Also writes `at` to the row.
static __device__ inline enum vx_fate cuda_move(const struct cuda_chain_rows &r, const struct cuda_moving &moving,
                                                uint32_t row, struct location *at) {
  float *values = r.points + (uint64_t)row * r.columns;
  enum vx_fate fate = cuda_move_at(r.clouds, moving, row, at);
  values[0] = at->x, values[1] = at->y, values[2] = at->z;
  return fate;
}

// Fills `moving`. If there are several matrices, brings them to the device; else `chain` may be NULL.
VX_WARN_UNUSED enum vx_status cuda_plan_moving(struct cuda_chain *chain, const struct vx_transform *params,
                                               struct cuda_moving *moving, struct error *error);

#endif
