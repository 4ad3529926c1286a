// Boxes and their non-maximum suppression.
//
// A box has seven float32: centre x, y, z and sizes dx, dy, dz in metres, heading in radians. dx runs along the
// heading. A box is valid if its values and its score are finite, no size is negative, and -65536 <= heading <= 65536.
//
// The boxes of a cloud are ranked by falling score (-0 equals 0), then by rising index. A box has the first of these
// fates that applies:
//   invalid        the box is not valid
//   over_pre_max   pre_max valid boxes of its cloud rank before it
//   over_post_max  post_max kept boxes of its cloud rank before it
//   suppressed     a kept box of better rank, and of its label unless class_agnostic, overlaps it too much or is too
//                  near (overlap.h)
//   kept           otherwise
//
// Kept indices are rows of the input, in one list over all clouds, by rank in each cloud.
#ifndef VOXELD_BOXES_H
#define VOXELD_BOXES_H

#include "kernels/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
  VX_BOX_VALUES = 7,
  VX_MOVING_BOX_VALUES = VX_BOX_VALUES + 2,  // of a box with a velocity
  VX_MAX_RANKED = 1 << 20,                   // largest pre_max and post_max
};

#define VX_NMS_TENSORS VX_TENSOR_BIT(VX_KEPT_INDICES)

// Inputs, in order: `boxes` [N,7] float32, `scores` [N] float32, `labels` [N] int32. Without `labels`, all labels are
// equal.
enum { VX_BOXES, VX_SCORES, VX_LABELS };

struct vx_nms {
  float iou_threshold;        // 0..1
  int32_t pre_max, post_max;  // 1..VX_MAX_RANKED
  int32_t class_agnostic;     // 1: boxes with other labels are suppressed too
  int32_t circle;             // 1: a kept box suppresses boxes with near centres; 0: boxes that overlap it
  float radius;               // of the circle; 0 or more; metres
};

#ifdef __cplusplus
}
#endif
#endif
