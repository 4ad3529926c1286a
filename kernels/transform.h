// Transform: points moved, and filtered, in input order.
//
// A point is moved by its cloud's matrix m, 16 values row by row with the last row 0, 0, 0, 1, in float32:
//   x' = ((m[0]*x + m[1]*y) + m[2]*z) + m[3], and so y' and z' from m[4] and m[8] on.
// Without matrices that of the identity is taken. The other columns are copied; float16 points are widened first.
//
// Each point has one fate, the first of these that holds of it once it was moved: x, y or z is not finite (what is not
// finite before never becomes finite); it is outside of the box that is kept, if there is one (out_of_crop); it is
// inside a box that is taken out (cut_out); it is kept. A point is inside a box if min <= p < max on each axis.
//
// The kept points of all clouds follow on each other, and so do their indices, which count the input's rows.
#ifndef VOXELD_TRANSFORM_H
#define VOXELD_TRANSFORM_H

#include "kernels/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { VX_MAX_CUTS = 64, VX_MATRIX_VALUES = 16 };

#define VX_TRANSFORM_TENSORS (VX_TENSOR_BIT(VX_MOVED_POINTS) | VX_TENSOR_BIT(VX_POINT_INDICES))

struct vx_box {
  float min[3], max[3];  // x, y, z; metres; min < max
};

// The second input, `matrix`, is [1, 4, 4] or one a cloud, [B, 4, 4], float32; without it points are not moved.
struct vx_transform {
  bool cropped;
  struct vx_box crop;         // what is kept, if it is cropped
  int32_t num_cuts;           // 0..VX_MAX_CUTS
  const struct vx_box *cuts;  // [num_cuts]: what is taken out; the caller's
};

// The matrix of a cloud in the input `matrix`; that of the identity if the input is not given.
const float *vx_matrix_of(const struct vx_input *matrix, int32_t cloud);

#ifdef __cplusplus
}
#endif
#endif
