// The arithmetic of an anchor head, shared by both backends: from maps to boxes. decode.h has the formulas.
//
// Pure functions for C and CUDA. Compile them with -ffp-contract=off or --fmad=false.
#ifndef VOXELD_ANCHORS_H
#define VOXELD_ANCHORS_H

#include "kernels/decode.h"
#include "kernels/exact.h"
#include "kernels/half.h"
#include "kernels/rank.h"

// The coordinate of a cell's anchors along one axis, which has `cells` cells.
VX_SHARED float vx_anchor_place(const struct vx_decode *decode, int axis, int64_t cell, int64_t cells) {
  double min = decode->range_min[axis], length = (double)decode->range_max[axis] - min;
  if (decode->align_center) return (float)((length * ((double)cell + 0.5)) / (double)cells + min);
  return cells == 1 ? decode->range_min[axis] : (float)((length * (double)cell) / (double)(cells - 1) + min);
}

// Adds the direction bin to the heading.
VX_SHARED float vx_turn_heading(const struct vx_decode *decode, float heading, int32_t bin) {
  double offset = decode->dir_offset, period = 2 * VX_PI / decode->dir_bins;
  double v = (double)heading - offset;
  return (float)(((v - floor(v / period + (double)decode->dir_limit_offset) * period) + offset) + period * bin);
}

// Decodes anchor `a` of a cell with the values `t` of the map. Without a velocity, the last two are 0.
VX_SHARED void vx_decode_box(const struct vx_decode *decode, int32_t a, float x, float y,
                             const float t[VX_MOVING_BOX_VALUES], float box[VX_MOVING_BOX_VALUES]) {
  const float *size = decode->sizes[a / decode->num_rotations];
  float z = (float)((double)decode->bottoms[a / decode->num_rotations] + (double)size[2] / 2);
  float diagonal = sqrtf(size[0] * size[0] + size[1] * size[1]);
  box[0] = t[0] * diagonal + x;
  box[1] = t[1] * diagonal + y;
  box[2] = t[2] * size[2] + z;
  for (int i = 0; i < 3; i++) box[3 + i] = vx_exp_float(t[3 + i]) * size[i];
  box[6] = t[6] + decode->rotations[a % decode->num_rotations];
  box[7] = t[7];
  box[8] = t[8];
}

VX_SHARED bool vx_is_valid_anchor(const float box[VX_MOVING_BOX_VALUES]) {
  return vx_is_valid_box(box, 0) && vx_is_finite(box[7]) && vx_is_finite(box[8]);
}

#endif
