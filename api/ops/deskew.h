// All operations on points have these parameters: the times of the points, and the motion of the sensor. Any thread.
#ifndef VOXELD_API_OPS_DESKEW_H
#define VOXELD_API_OPS_DESKEW_H

#include "api/ops/rows.h"

extern const struct param param_time_field, param_time_unit, param_time_origin, param_deskew, param_deskew_poses,
    param_deskew_twists, param_deskew_reference, param_interpolation;

#define PARAMS_OF_TIMES                                                                                                \
  &param_time_field, &param_time_unit, &param_time_origin, &param_deskew, &param_deskew_poses, &param_deskew_twists,   \
      &param_deskew_reference, &param_interpolation

// Checks these parameters. Call this after the mount is read. False with an error.
VX_WARN_UNUSED bool deskew_finish(const struct job_request *request, struct error *error);

// The motion of a sensor with this mount, for the modes poses and twists. False with an error.
VX_WARN_UNUSED bool deskew_motion(const struct job_request *request, const struct pose *mount, struct vx_motion *motion,
                                  struct error *error);

#endif
