// Decode of an anchor head: a detection head's maps in, boxes out.
//
// The inputs are [B, H, W, channels], float32 or float16. float16 is widened to float32. `cls_preds` has A * K
// channels, the logits of K classes for each of A anchors. `box_preds` has A * 7 channels, or A * 9 if boxes have a
// velocity. The optional `dir_cls_preds` has A * dir_bins. The anchors of a cell are its sizes, each with every
// rotation. The flat index of an anchor in its cloud is (row * W + column) * A + a.
//
// An anchor's best logit is its largest. NaN is ignored; of equal logits the first class wins. The anchor box is
// computed in binary64 and rounded once, with n columns:
//   x = ((max - min) * column) / (n - 1) + min, or min if n is 1; with align_center column + 0.5 and n; y the same way
//   z = bottom + dz / 2
// Its diagonal is d = sqrt(dx * dx + dy * dy), in binary32. The values t of the map give the box, in binary32:
//   t0 * d + x, t1 * d + y, t2 * dz + z, exp(t3) * dx, exp(t4) * dy, exp(t5) * dz, t6 + rotation
// The velocity of the box along x and y is t7, t8.
// With `dir_cls_preds`, the heading r is replaced, in binary64 and rounded once. The period is 2 pi / dir_bins; `bin`
// is the first of the anchor's largest bins:
//   v = r - dir_offset; ((v - floor(v / period + dir_limit_offset) * period) + dir_offset) + period * bin
//
// Anchors are ranked by falling best logit, then by rising index. Each anchor has one fate, the first of these that
// applies:
//   below_threshold  the sigmoid of the best logit, in binary32, is less than score_threshold
//   invalid          a value of the box or its velocity is not finite, or the heading is not from -65536 to 65536
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
  float bottoms[VX_MAX_ANCHOR_SIZES];  // z of the bottoms of the anchors
  float rotations[VX_MAX_ANCHOR_ROTATIONS];
  int32_t velocity;      // 1: boxes have one
  int32_t align_center;  // 1: anchors are at the centres of cells; 0: the outer anchors are at the ends of the range
  float dir_offset, dir_limit_offset;
  int32_t dir_bins;
  float score_threshold;  // 0..1
  struct vx_nms nms;
};

// Values of a box in `box_preds` and in the answer.
static inline int32_t vx_decoded_values(const struct vx_decode *decode) {
  return decode->velocity ? VX_MOVING_BOX_VALUES : VX_BOX_VALUES;
}

// The least logit whose sigmoid is at least the threshold or, if `strict`, above it; NaN if there is none.
float vx_least_logit(float score_threshold, bool strict);

#ifdef __cplusplus
}
#endif
#endif
