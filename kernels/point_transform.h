// From a point to its moved position and its fate in a transform.
//
// Pure functions for C and CUDA, in IEEE binary32. Compile them with -ffp-contract=off or --fmad=false.
#ifndef VOXELD_POINT_TRANSFORM_H
#define VOXELD_POINT_TRANSFORM_H

#include "kernels/half.h"
#include "kernels/step_transform.h"

VX_SHARED float vx_moved_on_axis(const float *matrix, unsigned axis, float x, float y, float z) {
  const float *m = matrix + (size_t)4 * axis;
  return ((m[0] * x + m[1] * y) + m[2] * z) + m[3];
}

VX_SHARED void vx_move(const float *matrix, float x, float y, float z, float moved[3]) {
  for (unsigned axis = 0; axis < 3; axis++) moved[axis] = vx_moved_on_axis(matrix, axis, x, y, z);
}

VX_SHARED bool vx_is_inside(const struct vx_box *box, const float at[3]) {
  bool inside = true;
  for (int axis = 0; axis < 3; axis++) inside = inside & (box->min[axis] <= at[axis]) & (at[axis] < box->max[axis]);
  return inside;
}

// `cuts`: the boxes of params->cuts, passed separately because a GPU cannot read through that pointer.
VX_SHARED enum vx_fate vx_fate_of_moved(const struct vx_transform *params, const struct vx_box *cuts,
                                        const float at[3]) {
  if (!vx_are_finite(at[0], at[1], at[2])) return VX_FATE_NOT_FINITE;
  if (params->cropped && !vx_is_inside(&params->crop, at)) return VX_FATE_OUT_OF_CROP;
  for (int32_t i = 0; i < params->num_cuts; i++)
    if (vx_is_inside(&cuts[i], at)) return VX_FATE_CUT_OUT;
  float squared = (at[0] * at[0] + at[1] * at[1]) + at[2] * at[2];
  bool near = squared < params->most * params->most, far = squared >= params->least * params->least;
  return !params->ranged || (near && far) ? VX_FATE_KEPT : VX_FATE_OUT_OF_DISTANCE;
}

#endif
