// Decode: a detection head's maps in, boxes out.
//
// The inputs are [B, H, W, channels], float32 or float16, which is widened: `cls_preds` with A * K channels, the logits
// of K classes for each of A anchors; `box_preds` with A * 7; optionally `dir_cls_preds` with A * dir_bins. The anchors
// of a cell are its sizes, each with every rotation. A cloud's flat index of an anchor is (row * W + column) * A + a.
//
// An anchor's best logit is the largest; NaN is ignored, and of equal ones the first class wins. Its anchor box has, in
// binary64 and rounded once, with n columns,
//   x = ((max - min) * column) / (n - 1) + min, or min if n is 1; with align_center column + 0.5 and n; y likewise
//   z = bottom + dz / 2
// and in binary32 d = sqrt(dx * dx + dy * dy). Of the seven values t its box is, in binary32,
//   t0 * d + x, t1 * d + y, t2 * dz + z, exp(t3) * dx, exp(t4) * dy, exp(t5) * dz, t6 + rotation
// With `dir_cls_preds`, the heading r becomes, in binary64 and rounded once, with period = 2 pi / dir_bins and `bin`
// the first largest of the anchor's bins,
//   v = r - dir_offset; ((v - floor(v / period + dir_limit_offset) * period) + dir_offset) + period * bin
//
// Each anchor has one fate, the first of these that applies; ranks are by falling best logit, then by rising index:
//   below_threshold  the sigmoid of the best logit, in binary32, is less than score_threshold
//   invalid          a value of the box is not finite, or the heading is beyond 65536 either way
//   over_pre_max, suppressed, over_post_max, kept  as boxes.h says
#ifndef VOXELD_ANCHOR_DECODE_H
#define VOXELD_ANCHOR_DECODE_H

#include "kernels/boxes.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { VX_MAX_ANCHOR_SIZES = 16, VX_MAX_ANCHOR_ROTATIONS = 8, VX_MAX_DIR_BINS = 16, VX_MAX_CLASSES = 64 };

// The inputs, in this order.
enum { VX_CLS_PREDS, VX_BOX_PREDS, VX_DIR_CLS_PREDS };

#define VX_DECODE_TENSORS                                                                                              \
  (VX_TENSOR_BIT(VX_DECODED_BOXES) | VX_TENSOR_BIT(VX_DECODED_SCORES) | VX_TENSOR_BIT(VX_DECODED_LABELS) |             \
   VX_TENSOR_BIT(VX_BOX_INDICES) | VX_TENSOR_BIT(VX_BOX_COUNTS))

struct vx_decode {
  float range_min[3], range_max[3];  // metres; min < max
  int32_t num_sizes, num_rotations;  // A = num_sizes * num_rotations
  float sizes[VX_MAX_ANCHOR_SIZES][3];
  float bottoms[VX_MAX_ANCHOR_SIZES];  // z of the anchors' lower sides
  float rotations[VX_MAX_ANCHOR_ROTATIONS];
  int32_t align_center;  // 1: anchors are at the cells' centres; 0: the outer ones are at the ends of the range
  float dir_offset, dir_limit_offset;
  int32_t dir_bins;
  float score_threshold;  // 0..1
  struct vx_nms nms;
};

// The least logit whose sigmoid is not less than the threshold or, if `strict`, is more; NaN if there is none.
float vx_least_logit(float score_threshold, bool strict);

#ifdef __cplusplus
}
#endif
#endif
