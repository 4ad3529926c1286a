// The motion of a sensor while a sweep is measured, from poses or twists: segments for kernels/deskew.h, made in double
// with functions that give the same bits everywhere, and rounded once. Any thread.
//
// Between two poses the sensor moves along a screw: its velocity and its angular velocity are constant in its own
// frame. With `slerp` it turns in the same way, but moves along a straight line in the fixed frame, which SLERP_PIECES
// screws approximate. A twist holds from the previous twist's time to its own time; the first also for VX_MOTION_MARGIN
// before its time, the last also for VX_MOTION_MARGIN after its time. A segment that turns by more than VX_SEGMENT_TURN
// is halved until no part does.
#ifndef VOXELD_PARAMS_MOTION_H
#define VOXELD_PARAMS_MOTION_H

#include "api/params/pose.h"
#include "kernels/deskew.h"

enum {
  MOTION_POSES_MAX = VX_MAX_SEGMENTS + 1,
  MOTION_TWISTS_MAX = VX_MAX_SEGMENTS - 1,
  MOTION_POSE_MOST = 1 + POSE_MATRIX,  // t and a matrix
  MOTION_TWIST = 7,                    // t,vx,vy,vz,wx,wy,wz
  SLERP_PIECES = 16,
};

// Rows of numbers, as given.
struct motion_size {
  int32_t rows;   // may be more than there is room for: the rest is not stored
  int32_t width;  // numbers of a row
};

// Rows separated by semicolons. double * in the record's pool, [up to most][width]; second: struct motion_size.
// `least`: the fewest rows.
extern const struct value_type value_pose_rows, value_twist_rows;

// `mount`: the pose of the sensor in the frame of the poses or twists. `reference`: the time of the frame into which
// points are moved. False with an error that names the parameter.
PARAM_WARN_UNUSED bool motion_of_poses(const double *rows, const struct motion_size *size, bool slerp,
                                       const struct pose *mount, double reference, struct vx_motion *motion,
                                       struct error *error);
PARAM_WARN_UNUSED bool motion_of_twists(const double *rows, const struct motion_size *size, const struct pose *mount,
                                        double reference, struct vx_motion *motion, struct error *error);
// The same with one twist, which moves the sensor from `then` (at -seconds) to `now` (at 0).
PARAM_WARN_UNUSED bool motion_between(const struct pose *then, const struct pose *now, double seconds, double reference,
                                      struct vx_motion *motion, struct error *error);

#endif
