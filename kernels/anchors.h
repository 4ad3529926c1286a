// The arithmetic of an anchor head, from maps to boxes, for both backends; decode.h has the formulas. Pure functions
// for C and CUDA; compile with -ffp-contract=off or --fmad=false.
#ifndef VOXELD_ANCHORS_H
#define VOXELD_ANCHORS_H

#include "kernels/decode.h"
#include "kernels/exact.h"
#include "kernels/half.h"
#include "kernels/rank.h"

// The coordinate of a cell's anchors along `axis`, which has `cells` cells.
VX_SHARED float vx_anchor_place(const struct vx_decode *decode, int axis, int64_t cell, int64_t cells) {
  double min = decode->range_min[axis], length = (double)decode->range_max[axis] - min;
  if (decode->align_center) return (float)((length * ((double)cell + 0.5)) / (double)cells + min);
  return cells == 1 ? decode->range_min[axis] : (float)((length * (double)cell) / (double)(cells - 1) + min);
}

// Adds the direction bin.
VX_SHARED float vx_turn_heading(const struct vx_decode *decode, float heading, int32_t bin) {
  double offset = decode->dir_offset, period = 2 * VX_PI / decode->dir_bins;
  double v = (double)heading - offset;
  return (float)(((v - floor(v / period + (double)decode->dir_limit_offset) * period) + offset) + period * bin);
}

struct vx_anchor {
  int32_t number;                    // index in its cell
  int32_t first;                     // index of its first logit in the cell
  int32_t first_class, num_classes;  // of its task
};

// The anchor that has the cell's logit `logit`. `decode` has at least one task.
VX_SHARED struct vx_anchor vx_anchor_of(const struct vx_decode *decode, int32_t logit) {
  struct vx_anchor anchor = {0, 0, 0, 0};
  for (int32_t task = 0;; task++) {
    int32_t classes = decode->tasks.classes[task], anchors = decode->task_sizes[task] * decode->num_rotations;
    int32_t within = (logit - anchor.first) / classes;
    bool here = within < anchors || task + 1 == decode->tasks.count;
    anchor.number += here ? within : anchors;
    anchor.first += (here ? within : anchors) * classes;
    anchor.num_classes = classes;
    if (here) return anchor;
    anchor.first_class += classes;
  }
}

// Without the direction bin; not finite if a value of the map is not finite.
VX_SHARED float vx_anchor_heading(const struct vx_decode *decode, float rotation, const float *t) {
  double sine, cosine;
  if (decode->heading == VX_HEADING_ANGLE) return t[0] + rotation;
  vx_sincos((double)rotation, &sine, &cosine);
  float x = t[0] + (float)cosine, y = t[1] + (float)sine;
  return vx_is_finite(x) && vx_is_finite(y) ? (float)vx_atan2((double)y, (double)x) : NAN;
}

// Decodes anchor `a` of a cell. `t`: its values of the map; missing values are 0.
VX_SHARED void vx_decode_box(const struct vx_decode *decode, int32_t a, float x, float y,
                             const float t[VX_MAX_CODE_VALUES], float box[VX_MOVING_BOX_VALUES]) {
  const float *size = decode->sizes[a / decode->num_rotations];
  float z = (float)((double)decode->bottoms[a / decode->num_rotations] + (double)size[2] / 2);
  float diagonal = sqrtf(size[0] * size[0] + size[1] * size[1]);
  int32_t velocity = decode->heading == VX_HEADING_ANGLE ? VX_BOX_VALUES : VX_BOX_VALUES + 1;
  box[0] = t[0] * diagonal + x;
  box[1] = t[1] * diagonal + y;
  box[2] = t[2] * size[2] + z;
  for (int i = 0; i < 3; i++) box[3 + i] = vx_exp_float(t[3 + i]) * size[i];
  box[6] = vx_anchor_heading(decode, decode->rotations[a % decode->num_rotations], t + 6);
  box[7] = t[velocity];
  box[8] = t[velocity + 1];
}

VX_SHARED bool vx_is_valid_anchor(const float box[VX_MOVING_BOX_VALUES]) {
  return vx_is_valid_box(box, 0) && vx_is_finite(box[7]) && vx_is_finite(box[8]);
}

#endif
