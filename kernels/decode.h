// Decode of an anchor head: a detection head's maps in, boxes out.
//
// The inputs are [B, H, W, channels], float32 or float16. float16 is widened to float32. A cell has A anchors: each
// size with each rotation. The sizes are divided among the head's tasks (head.h), in order. An anchor has a logit for
// each class of its task.
//   cls_preds      the logits of each anchor: L channels in all
//   box_preds      the values t0, t1, ... of each anchor: 7, or 8 if the heading is given as cosine and sine; then 2
//                  for a velocity
//   dir_cls_preds  the logits of dir_bins directions of each anchor; optional
// In its cloud, anchor a of a cell has the index (row * W + column) * A + a; logit l has (row * W + column) * L + l.
//
// The anchor box, in a map of n columns, is computed in binary64 and rounded once:
//   x = ((max - min) * column) / (n - 1) + min, or min if n is 1
//   x = ((max - min) * (column + 0.5)) / n + min with align_center
//   y = the same with rows; z = bottom + dz / 2
// Its diagonal is d = sqrt(dx * dx + dy * dy), in binary32. The values t of the map give the box, in binary32:
//   t0 * d + x, t1 * d + y, t2 * dz + z, exp(t3) * dx, exp(t4) * dy, exp(t5) * dz, t6 + rotation
// A heading of cosine and sine is instead the angle of t6 + cos(rotation), t7 + sin(rotation). cos, sin and the angle
// are computed in binary64 and rounded once, the sums in binary32. The last two values are the velocity along x and y.
// With `dir_cls_preds`, the heading r becomes, in binary64 and rounded once, with period = 2 pi / dir_bins and `bin`
// the first direction with the largest logit:
//   v = r - dir_offset; ((v - floor(v / period + dir_limit_offset) * period) + dir_offset) + period * bin
//
// Fates are counted for items; a candidate is a logit that may give a box. With labels=best, each anchor is an item,
// and its largest logit is the candidate. NaN is ignored; of equal logits the first class wins. With labels=all, each
// logit is an item and a candidate.
//
// The fate of an item is the first of these that applies:
//   below_threshold  the sigmoid of its candidate, in binary32, is less than score_threshold; or the logit is NaN or
//                    -infinity
//   invalid          a value of the box or its velocity is not finite, or the heading is not from -65536 to 65536
//   over_pre_max     pre_max anchors of its group rank before its anchor. The anchors of a group are ranked by their
//                    best candidates in the group: by falling logit, then by rising index
//   suppressed, over_post_max, kept  as boxes.h says, among the boxes of its group
#ifndef VOXELD_ANCHOR_DECODE_H
#define VOXELD_ANCHOR_DECODE_H

#include "kernels/head.h"
#include "kernels/host_device.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
  VX_MAX_ANCHOR_SIZES = 16,
  VX_MAX_ANCHOR_ROTATIONS = 8,
  VX_MAX_DIR_BINS = 16,
  VX_MAX_CODE_VALUES = VX_MOVING_BOX_VALUES + 1,  // of an anchor in box_preds
};

// The inputs, in this order.
enum { VX_CLS_PREDS, VX_BOX_PREDS, VX_DIR_CLS_PREDS };

#define VX_DECODE_TENSORS                                                                                              \
  (VX_TENSOR_BIT(VX_DECODED_BOXES) | VX_TENSOR_BIT(VX_DECODED_SCORES) | VX_TENSOR_BIT(VX_DECODED_LABELS) |             \
   VX_TENSOR_BIT(VX_BOX_INDICES) | VX_TENSOR_BIT(VX_BOX_COUNTS))

enum vx_labels { VX_LABELS_BEST, VX_LABELS_ALL };
enum vx_heading { VX_HEADING_ANGLE, VX_HEADING_COS_SIN };

struct vx_decode {
  float range_min[3], range_max[3];  // metres; min < max
  int32_t num_sizes, num_rotations;  // A = num_sizes * num_rotations
  float sizes[VX_MAX_ANCHOR_SIZES][3];
  float bottoms[VX_MAX_ANCHOR_SIZES];  // z of the bottoms of the anchors
  float rotations[VX_MAX_ANCHOR_ROTATIONS];
  struct vx_head_tasks tasks;
  int32_t num_task_sizes;            // 0 if there are no tasks, else their number
  int32_t task_sizes[VX_MAX_TASKS];  // how many sizes each task has, 1 or more; the sum is num_sizes
  int32_t heading;                   // enum vx_heading
  int32_t velocity;                  // 1: boxes have a velocity
  int32_t align_center;              // 1: anchors are at the centres of cells; 0: the outer ones at the range's ends
  float dir_offset, dir_limit_offset;
  int32_t dir_bins;
  int32_t labels;         // enum vx_labels
  float score_threshold;  // 0..1
  int32_t nms_groups;     // enum vx_nms_groups
  struct vx_nms nms;      // of a group
};

VX_SHARED int32_t vx_decoded_values(const struct vx_decode *decode) {
  return decode->velocity ? VX_MOVING_BOX_VALUES : VX_BOX_VALUES;
}

// Values of an anchor in `box_preds`.
VX_SHARED int32_t vx_code_values(const struct vx_decode *decode) {
  return vx_decoded_values(decode) + (decode->heading == VX_HEADING_COS_SIN ? 1 : 0);
}

static inline int32_t vx_cell_anchors(const struct vx_decode *decode) {
  return decode->num_sizes * decode->num_rotations;
}

// The logits of a cell. Without tasks: `channels`, those of cls_preds, rounded down to a multiple of A.
int64_t vx_cell_logits(const struct vx_decode *decode, int64_t channels);
// A copy of `decode` with at least one task: if `decode` has none, one task gets all classes. `logits`: of a cell.
struct vx_decode vx_with_tasks(const struct vx_decode *decode, int64_t logits);

#ifdef __cplusplus
}
#endif
#endif
