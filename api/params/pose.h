// Poses: where a frame is in another, as a rotation and a translation in double. p' = rotation * p + translation.
//
// A product of three is summed as (a + b) + c, without contraction, so that the same poses give the same bits
// everywhere. Any thread.
#ifndef VOXELD_PARAMS_POSE_H
#define VOXELD_PARAMS_POSE_H

#include "api/params/params.h"

// As it was given: 16 numbers, row by row, or 7: x, y, z, qw, qx, qy, qz.
enum { POSE_MATRIX = 16, POSE_QUATERNION = 7 };
struct pose_numbers {
  int32_t count;  // 0 = not given
  double values[POSE_MATRIX];
};

struct pose {
  double rotation[9];  // row by row
  double translation[3];
};

extern const struct value_type value_pose;  // struct pose_numbers

extern const struct pose pose_identity;

// Makes a pose of POSE_MATRIX or POSE_QUATERNION numbers. A quaternion is normalised. Returns what keeps them from
// being a rigid motion, or NULL.
PARAM_WARN_UNUSED const char *pose_of(const double *values, int32_t count, struct pose *pose);

// The pose of the inner frame in what the outer one is in. The result may be none of the two.
struct pose pose_compose(const struct pose *outer, const struct pose *inner);

// What moves points of the frame `then` into the frame `now`, both poses in one fixed frame: inverse(now) * then, as a
// matrix of float32, row by row. The translations are subtracted first, so that far from the origin nothing is lost.
void pose_motion(const struct pose *now, const struct pose *then, float matrix[16]);

#endif
