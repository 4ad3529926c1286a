// Decode of a centre head: CenterPoint's maps in, boxes out.
//
// The inputs are [B, H, W, channels], float32 or float16. float16 is widened to float32. A head has K classes in T
// tasks. A map has the channels of the first task, then the channels of the next task:
//   heatmap  a logit for each class
//   center   the centre's offset from the cell's corner along x and y, in cells
//   height   the centre's z
//   dim      the logarithms of dx, dy, dz
//   rot      the heading's cosine and sine, in the order that rot_order names
//   vel      the velocity along x and y; optional
//   iou      2 * overlap - 1, where `overlap` is the predicted IoU of the box with its object; optional
// A candidate is a class at a cell. With best_class, only the best class of each task at each cell is a candidate: NaN
// is ignored; of equal logits the first class wins. A candidate's flat index in its cloud is
// (class * H + row) * W + column. Classes are numbered through all tasks. The candidate's box is computed in binary32,
// in this order:
//   x = ((column + offset) * stride) * voxel size + range min; y in the same way, with the row
//   z = height; dx, dy, dz = the exponentials
// The heading is atan2(sine, cosine), computed in binary64 and rounded once.
//
// The score of a candidate is the sigmoid of its logit, in binary32. With `iou`, the score of its box is rectified:
// score^score_power * overlap^iou_power, with the exponents of its class. The overlap is (iou + 1) * 0.5 in binary32,
// clamped to 0..1. vx_power (exact.h) and the product are in binary64. The product is rounded once.
//
// Each task is decoded separately. Candidates are ranked by falling logit, then by rising index. A candidate has one
// fate, the first of these that applies:
//   below_threshold   its score is <= score_threshold, or its logit is NaN
//   over_max_objects  max_objects candidates of its task rank before it
//   invalid           a value of the box, of rot, of vel or of iou is not finite
//   outside           the centre is not within center_min <= x, y, z <= center_max
//   below_threshold   its rectified score is <= rectified_threshold
//   over_pre_max, suppressed, over_post_max, kept  as boxes.h says, among the boxes of its task
// Boxes have the ranks of their candidates. With `iou` they are ranked by falling rectified score, then by rising
// index. The kept boxes of a cloud are listed task by task.
#ifndef VOXELD_CENTER_H
#define VOXELD_CENTER_H

#include "kernels/head.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { VX_MAX_STRIDE = 1024, VX_MAX_POWER = 16 };

// The inputs, in this order.
enum { VX_HEATMAP, VX_CENTER, VX_HEIGHT, VX_DIM, VX_ROT, VX_VEL, VX_IOU };

enum vx_rot_order { VX_COS_SIN, VX_SIN_COS };

struct vx_decode_center {
  float range_min[3], range_max[3];  // metres; min < max
  float voxel_size[3];               // metres, each above 0; z is not used
  int32_t stride;                    // voxels per cell along x and y; 1..VX_MAX_STRIDE
  struct vx_head_tasks tasks;
  int32_t best_class;     // 1: a cell has one candidate per task; 0: one per class
  int32_t rot_order;      // enum vx_rot_order
  float score_threshold;  // 0..1
  int32_t max_objects;    // per task; 1..VX_MAX_RANKED
  int32_t limited;        // 1: centres must be within center_min and center_max
  float center_min[3], center_max[3];
  int32_t num_radii;  // 1: one radius for all tasks; else one per task
  float radii[VX_MAX_TASKS];
  // The exponents, used if the head has `iou`: one for all classes, or one per class; each 0..VX_MAX_POWER.
  int32_t num_score_powers, num_iou_powers;
  float score_powers[VX_MAX_CLASSES], iou_powers[VX_MAX_CLASSES];
  float rectified_threshold;  // 0..1; less than 0: rectified scores drop no box
  struct vx_nms nms;          // nms.radius is not used: `radii` has the radius of each task
};

#ifdef __cplusplus
}
#endif
#endif
