// Decode of a centre head: CenterPoint's maps in, boxes out.
//
// Inputs: [B,H,W,channels] float32, or float16, which is widened. A head has K classes in T tasks; a map has the
// channels task by task:
//   heatmap  a logit for each class
//   center   offset of the centre from the cell's corner, along x and y, in cells
//   height   z of the centre
//   dim      the logarithms of dx, dy, dz
//   rot      the heading's cosine and sine, in the order that rot_order names
//   vel      velocity along x and y; optional
//   iou      2 * overlap - 1, where `overlap` is the predicted IoU of box and object; optional
// A candidate is a class at a cell; its index in its cloud is (class * H + row) * W + column, with classes numbered
// through all tasks. With best_class, a task has one candidate at each cell: the class with the largest logit; NaN is
// ignored, and of equal logits the first wins. The candidate's box, in binary32, in this order:
//   x = ((column + offset) * stride) * voxel size + range min; y in the same way, with the row
//   z = height; dx, dy, dz = the exponentials
// The heading is atan2(sine, cosine) in binary64, rounded once.
//
// A candidate's score is the sigmoid of its logit, in binary32. With `iou`, its box has the rectified score
// score^score_power * overlap^iou_power, with the exponents of its class. The overlap is (iou + 1) * 0.5 in binary32,
// clamped to 0..1. vx_power (exact.h) and the product are in binary64, rounded once.
//
// In each task, candidates are ranked by falling logit, then by rising index. A candidate has the first of these fates
// that applies:
//   below_threshold   its score is <= score_threshold, or its logit is NaN
//   over_max_objects  max_objects candidates of its task rank before it
//   invalid           a value of the box, rot, vel or iou is not finite
//   outside           not center_min <= x, y, z <= center_max
//   below_threshold   its rectified score is <= rectified_threshold
//   over_pre_max, suppressed, over_post_max, kept  as boxes.h says, among the boxes of its task
// Boxes keep the ranks of their candidates; with `iou` they are ranked by falling rectified score, then by rising
// index. The kept boxes of a cloud are listed task by task.
#ifndef VOXELD_CENTER_H
#define VOXELD_CENTER_H

#include "kernels/head.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { VX_MAX_STRIDE = 1024, VX_MAX_POWER = 16 };

// Inputs, in order.
enum { VX_HEATMAP, VX_CENTER, VX_HEIGHT, VX_DIM, VX_ROT, VX_VEL, VX_IOU };

enum vx_rot_order { VX_COS_SIN, VX_SIN_COS };

struct vx_decode_center {
  float range_min[3], range_max[3];  // metres; min < max
  float voxel_size[3];               // metres, each above 0; z is unused
  int32_t stride;                    // voxels per cell along x and y; 1..VX_MAX_STRIDE
  struct vx_head_tasks tasks;
  int32_t best_class;     // 1: one candidate per task at a cell; 0: one per class
  int32_t rot_order;      // enum vx_rot_order
  float score_threshold;  // 0..1
  int32_t max_objects;    // per task; 1..VX_MAX_RANKED
  int32_t limited;        // 1: centres must be within center_min and center_max
  float center_min[3], center_max[3];
  int32_t num_radii;  // 1: for all tasks; else one per task
  float radii[VX_MAX_TASKS];
  // Exponents, if the head has `iou`: one for all classes or one per class; each 0..VX_MAX_POWER.
  int32_t num_score_powers, num_iou_powers;
  float score_powers[VX_MAX_CLASSES], iou_powers[VX_MAX_CLASSES];
  float rectified_threshold;  // 0..1; below 0: drops no box
  struct vx_nms nms;          // `radii` replaces nms.radius
};

#ifdef __cplusplus
}
#endif
#endif
