// The step `transform`: moves and filters points.
//
// A point is moved by its cloud's matrix m, which lies row by row and ends with the row 0, 0, 0, 1. In float32:
//   x' = ((m[0]*x + m[1]*y) + m[2]*z) + m[3]; y' and z' in the same way, from m[4] and m[8] on.
// Without matrices the identity is used, which makes -0 into 0. The other columns stay.
//
// Each moved point has one fate, the first of these that applies:
//   not_finite       x, y or z is not finite
//   out_of_crop      there is a box to keep, and the point is outside
//   cut_out          the point is inside a box to remove
//   out_of_distance  there are distances to keep, and d2 < least * least or d2 >= most * most, where
//                    d2 = (x*x + y*y) + z*z in float32
//   kept             otherwise
// A point is inside a box if min <= p < max on each axis.
#ifndef VOXELD_STEP_TRANSFORM_H
#define VOXELD_STEP_TRANSFORM_H

#include "kernels/step.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { VX_MAX_CUTS = 64, VX_MATRIX_VALUES = 16 };

struct vx_box {
  float min[3], max[3];  // x, y, z; metres; min < max
};

struct vx_transform {
  bool cropped;
  struct vx_box crop;         // the box to keep, if cropped
  int32_t num_cuts;           // 0..VX_MAX_CUTS
  const struct vx_box *cuts;  // [num_cuts], boxes to remove; caller's memory
  bool ranged;
  float least, most;      // distances from the origin to keep, if ranged; metres; 0 <= least < most
  int32_t num_matrices;   // 0: points do not move; 1: one for all clouds; or one for each
  const float *matrices;  // [num_matrices, 16]; caller's memory
};

extern const struct vx_step_row vx_step_transform;

// [16]; the identity if there are no matrices.
const float *vx_matrix_of(const struct vx_transform *params, int32_t cloud);

#ifdef __cplusplus
}
#endif
#endif
