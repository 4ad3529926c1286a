// The arithmetic of a centre head, from maps to boxes, for both backends; center.h has the formulas. Pure functions for
// C and CUDA; compile with -ffp-contract=off or --fmad=false.
#ifndef VOXELD_CENTERS_H
#define VOXELD_CENTERS_H

#include "kernels/center.h"
#include "kernels/exact.h"
#include "kernels/rank.h"

// The values of one task at one cell.
struct vx_center_values {
  float offset[2], height, dim[3], rot[2], vel[2], iou;
};

// The box of a cell, with its velocity.
VX_SHARED void vx_center_box(const struct vx_decode_center *center, int64_t row, int64_t column,
                             const struct vx_center_values *values, float box[VX_MOVING_BOX_VALUES]) {
  float stride = (float)center->stride;
  bool sine_first = center->rot_order == VX_SIN_COS;
  double cosine = values->rot[sine_first ? 1 : 0], sine = values->rot[sine_first ? 0 : 1];
  box[0] = (((float)column + values->offset[0]) * stride) * center->voxel_size[0] + center->range_min[0];
  box[1] = (((float)row + values->offset[1]) * stride) * center->voxel_size[1] + center->range_min[1];
  box[2] = values->height;
  for (int i = 0; i < 3; i++) box[3 + i] = vx_exp_float(values->dim[i]);
  box[6] = (float)vx_atan2(sine, cosine);
  box[7] = values->vel[0];
  box[8] = values->vel[1];
}

// `label`: the class of the box.
VX_SHARED float vx_rectified_score(const struct vx_decode_center *center, int32_t label, float logit, float iou) {
  float overlap = (iou + 1) * 0.5f;
  overlap = overlap > 0 ? overlap : 0;
  overlap = overlap < 1 ? overlap : 1;
  float score_power = center->score_powers[center->num_score_powers > 1 ? label : 0];
  float iou_power = center->iou_powers[center->num_iou_powers > 1 ? label : 0];
  return (float)(vx_power(vx_sigmoid(logit), score_power) * vx_power(overlap, iou_power));
}

// Checks rot itself: vx_atan2 can turn NaN into a number.
VX_SHARED bool vx_is_valid_center(const struct vx_center_values *values, const float box[VX_MOVING_BOX_VALUES]) {
  return vx_is_finite(values->rot[0]) && vx_is_finite(values->rot[1]) && vx_is_finite(values->iou) &&
         vx_is_finite(box[7]) && vx_is_finite(box[8]) && vx_is_valid_box(box, 0);
}

VX_SHARED bool vx_is_outside(const struct vx_decode_center *center, const float box[VX_BOX_VALUES]) {
  bool inside = true;
  for (int i = 0; i < 3; i++) inside = inside & (box[i] >= center->center_min[i]) & (box[i] <= center->center_max[i]);
  return center->limited && !inside;
}

#endif
