// Boxes, and their non-maximum suppression.
//
// A box is x, y, z of its centre, dx, dy, dz, and its heading: metres and radians, float32. dx runs along the heading.
// A box is valid if all its values and its score are finite, no size is negative, and its heading is within 65536
// either way.
//
// Each cloud's boxes are ranked by falling score (-0 equals 0), then by rising index. Each box has one fate, the first
// of these that applies:
//   invalid        it is not valid
//   over_pre_max   pre_max valid boxes of its cloud rank before it
//   suppressed     a kept box that ranks before it overlaps it too much, or is too near to it: overlap.h
//   over_post_max  post_max boxes of its cloud are kept already
//   kept           otherwise
// Once post_max boxes of a cloud are kept, those that follow are over_post_max, whatever they overlap.
//
// The kept boxes' indices, in the order of their ranks, are one list over all clouds; they count the rows of the input.
#ifndef VOXELD_BOXES_H
#define VOXELD_BOXES_H

#include "kernels/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { VX_BOX_VALUES = 7, VX_MAX_RANKED = 1 << 20 };  // boxes of a cloud that pre_max and post_max allow at most

#define VX_NMS_TENSORS VX_TENSOR_BIT(VX_KEPT_INDICES)

// The inputs, in this order: `boxes` [N, 7] and `scores` [N], float32; `labels` [N] int32, without which all boxes have
// the same.
enum { VX_BOXES, VX_SCORES, VX_LABELS };

struct vx_nms {
  float iou_threshold;        // 0..1
  int32_t pre_max, post_max;  // 1..VX_MAX_RANKED
  int32_t class_agnostic;     // 1: a box suppresses those of other labels too; 0: it does not
  int32_t circle;  // 1: a kept box suppresses those whose centres are near, instead of those that it overlaps
  float radius;    // of the circle, 0 or more; metres
};

#ifdef __cplusplus
}
#endif
#endif
