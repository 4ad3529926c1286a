// Transform: moves and filters points, in input order.
//
// A point is moved by its cloud's matrix m: 16 values row by row, the last row 0, 0, 0, 1. In float32:
//   x' = ((m[0]*x + m[1]*y) + m[2]*z) + m[3]; y' and z' in the same way, from m[4] and m[8] on.
// Without matrices the identity is used. The other columns are copied. float16 points are converted to float32 first.
//
// Each moved point has one fate, the first of these that applies:
//   not_finite   x, y or z is not finite (a coordinate that is not finite never becomes finite)
//   out_of_crop  there is a box to keep, and the point is outside
//   cut_out      the point is inside a box to remove
//   kept         otherwise
// A point is inside a box if min <= p < max on each axis.
//
// The kept points of all clouds form one list. Their indices are row numbers of the input and form another list.
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

// The second input, `matrix`, is float32: [1, 4, 4] for all clouds, or [B, 4, 4] with one per cloud. Without it points
// do not move.
struct vx_transform {
  bool cropped;
  struct vx_box crop;         // the box to keep, if cropped
  int32_t num_cuts;           // 0..VX_MAX_CUTS
  const struct vx_box *cuts;  // [num_cuts]: boxes to remove; caller's memory
};

// The matrix of a cloud in the input `matrix`; the identity if the input is absent.
const float *vx_matrix_of(const struct vx_input *matrix, int32_t cloud);

#ifdef __cplusplus
}
#endif
#endif
