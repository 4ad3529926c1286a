// Boxes and their non-maximum suppression.
//
// A box has seven float32 values: the centre x, y, z, the sizes dx, dy, dz in metres, and the heading in radians. dx
// runs along the heading. A box is valid if all its values and its score are finite, no size is negative, and the
// heading is from -65536 to 65536.
//
// Each cloud's boxes are ranked by falling score (-0 equals 0), then by rising index. Each box has one fate, the first
// of these that applies:
//   invalid        the box is not valid
//   over_pre_max   pre_max valid boxes of its cloud rank before it
//   suppressed     a kept box with a better rank overlaps this box too much, or is too near to it (overlap.h)
//   over_post_max  post_max boxes of its cloud are kept already
//   kept           otherwise
// Once post_max boxes of a cloud are kept, all boxes that rank lower are over_post_max, even if a kept box overlaps
// them.
//
// The indices of the kept boxes are row numbers of the input. They form one list over all clouds, by rank in each
// cloud.
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

// The inputs, in this order: `boxes` [N, 7] and `scores` [N], float32; `labels` [N], int32. Without `labels`, all boxes
// have the same label.
enum { VX_BOXES, VX_SCORES, VX_LABELS };

struct vx_nms {
  float iou_threshold;        // 0..1
  int32_t pre_max, post_max;  // 1..VX_MAX_RANKED
  int32_t class_agnostic;     // whether a box also suppresses boxes with other labels
  int32_t circle;             // 1: a kept box suppresses boxes with near centres; 0: boxes that it overlaps
  float radius;               // radius of the circle, 0 or more; metres
};

#ifdef __cplusplus
}
#endif
#endif
