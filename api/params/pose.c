// See pose.h.
#include "api/params/pose.h"

#include <math.h>
#include <string.h>

#include "api/params/values.h"

// How far a rotation may be from orthonormal. Poses printed with 6 digits are closer by two orders of magnitude.
static const double tolerance = 1e-4;

const struct pose pose_identity = {{1, 0, 0, 0, 1, 0, 0, 0, 1}, {0, 0, 0}};

// ---- numbers --------------------------------------------------------------------------------------------------------

static bool read_pose(const struct param *param, const char *value, const char *end, void *record) {
  struct pose_numbers *numbers = (void *)((char *)record + param->offset);
  numbers->count = 0;
  while (numbers->count < POSE_MATRIX && !value_ended(value, end))
    if (!value_take_double(&value, end, &numbers->values[numbers->count++])) return false;
  return value_ended(value, end) && (numbers->count == POSE_MATRIX || numbers->count == POSE_QUATERNION);
}

static void write_pose(const struct param *param, const void *record, struct text *out) {
  const struct pose_numbers *numbers = (const void *)((const char *)record + param->offset);
  value_write_doubles(numbers->values, numbers->count, out);
}

const struct value_type value_pose = {"floats", false, read_pose, write_pose, NULL, NULL};

// ---- rigid motions --------------------------------------------------------------------------------------------------

static double dot(const double *a, const double *b, size_t stride_a, size_t stride_b) {
  return (a[0] * b[0] + a[stride_a] * b[stride_b]) + a[2 * stride_a] * b[2 * stride_b];
}

static bool is_orthonormal(const double rotation[9]) {
  for (int i = 0; i < 3; i++)
    for (int j = i; j < 3; j++)
      if (!(fabs(dot(rotation + i, rotation + j, 3, 3) - (i == j)) <= tolerance)) return false;
  return true;
}

static double determinant(const double m[9]) {
  const double cross[3] = {m[4] * m[8] - m[5] * m[7], m[5] * m[6] - m[3] * m[8], m[3] * m[7] - m[4] * m[6]};
  return dot(m, cross, 1, 1);
}

static const char *of_matrix(const double *values, struct pose *pose) {
  if (values[12] != 0 || values[13] != 0 || values[14] != 0 || values[15] != 1) return "its last row is not 0,0,0,1";
  for (int row = 0; row < 3; row++) {
    memcpy(pose->rotation + (size_t)3 * row, values + (size_t)4 * row, 3 * sizeof(double));
    pose->translation[row] = values[4 * row + 3];
  }
  if (!is_orthonormal(pose->rotation)) return "its 3 x 3 part is not a rotation: the columns are not orthonormal";
  return determinant(pose->rotation) > 0 ? NULL : "its 3 x 3 part is a reflection";
}

static const char *of_quaternion(const double *values, struct pose *pose) {
  double w = values[3], x = values[4], y = values[5], z = values[6];
  double length = sqrt((w * w + x * x) + (y * y + z * z));
  if (!(fabs(length - 1) <= tolerance)) return "the length of its quaternion qw,qx,qy,qz is not 1";
  w /= length, x /= length, y /= length, z /= length;
  const double rotation[9] = {1 - 2 * (y * y + z * z), 2 * (x * y - z * w),     2 * (x * z + y * w),
                              2 * (x * y + z * w),     1 - 2 * (x * x + z * z), 2 * (y * z - x * w),
                              2 * (x * z - y * w),     2 * (y * z + x * w),     1 - 2 * (x * x + y * y)};
  memcpy(pose->rotation, rotation, sizeof rotation);
  memcpy(pose->translation, values, sizeof pose->translation);
  return NULL;
}

const char *pose_of(const double *values, int32_t count, struct pose *pose) {
  return (count == POSE_MATRIX ? of_matrix : of_quaternion)(values, pose);
}

struct pose pose_compose(const struct pose *outer, const struct pose *inner) {
  struct pose pose;
  for (int row = 0; row < 3; row++) {
    const double *from = outer->rotation + (size_t)3 * row;
    for (int column = 0; column < 3; column++)
      pose.rotation[3 * row + column] = dot(from, inner->rotation + column, 1, 3);
    pose.translation[row] = dot(from, inner->translation, 1, 1) + outer->translation[row];
  }
  return pose;
}

struct pose pose_between(const struct pose *now, const struct pose *then) {
  struct pose pose;
  double way[3];
  for (int axis = 0; axis < 3; axis++) way[axis] = then->translation[axis] - now->translation[axis];
  for (int row = 0; row < 3; row++) {
    const double *from = now->rotation + row;  // a column, since the inverse of a rotation is its transpose
    for (int column = 0; column < 3; column++)
      pose.rotation[3 * row + column] = dot(from, then->rotation + column, 3, 3);
    pose.translation[row] = dot(from, way, 3, 1);
  }
  return pose;
}

void pose_motion(const struct pose *now, const struct pose *then, float matrix[16]) {
  struct pose pose = pose_between(now, then);
  for (int row = 0; row < 3; row++) {
    for (int column = 0; column < 3; column++) matrix[4 * row + column] = (float)pose.rotation[3 * row + column];
    matrix[4 * row + 3] = (float)pose.translation[row];
  }
  matrix[12] = matrix[13] = matrix[14] = 0;
  matrix[15] = 1;
}
