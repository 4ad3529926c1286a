// Poses: the position of one frame in another, in double: p' = rotation * p + translation.
//
// Sums of three products are (a + b) + c, without contraction, so that equal poses give equal bits everywhere. Any
// thread.
#ifndef VOXELD_PARAMS_POSE_H
#define VOXELD_PARAMS_POSE_H

#include "api/params/params.h"

// The numbers as the client gave them: 16, row by row, or 7: x, y, z, qw, qx, qy, qz.
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

// Makes a pose from POSE_MATRIX or POSE_QUATERNION numbers; normalises a quaternion. NULL, or why the numbers are not a
// rigid motion.
PARAM_WARN_UNUSED const char *pose_of(const double *values, int32_t count, struct pose *pose);

// outer * inner: `inner` is a pose in the frame whose pose is `outer`.
struct pose pose_compose(const struct pose *outer, const struct pose *inner);

// The pose of the frame `then` in the frame `now`: inverse(now) * then. Both are poses in one fixed frame. Subtracts
// the translations first, to keep precision far from the origin.
struct pose pose_between(const struct pose *now, const struct pose *then);

// The matrix that moves points from the frame `then` into the frame `now`: pose_between in float32, row by row.
void pose_motion(const struct pose *now, const struct pose *then, float matrix[16]);

#endif
