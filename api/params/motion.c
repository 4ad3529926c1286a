// See motion.h.
#include "api/params/motion.h"

#include <math.h>
#include <string.h>

#include "api/base/json_write.h"
#include "api/params/values.h"
#include "kernels/exact.h"

static const char of_poses[] = "deskew_poses", of_twists[] = "deskew_twists", of_stream[] = "deskew";

// ---- values ---------------------------------------------------------------------------------------------------------

// Returns the count of numbers; 0 if the row has more than `most`, or something that is not a number.
static int32_t read_row(const char *row, const char *end, int32_t most, double *out) {
  int32_t width = 0;
  while (width < most && !value_ended(row, end))
    if (!value_take_double(&row, end, &out[width++])) return 0;
  return value_ended(row, end) ? width : 0;
}

// Reads rows, all as wide as the first. Stores as many as fit, but counts all, so that the caller can tell if there are
// too many.
static bool read_rows(const struct param *param, const char *value, const char *end, void *record, int32_t most) {
  struct motion_size *size = (void *)((char *)record + param->second);
  double **out = (void *)((char *)record + param->offset), spare[MOTION_POSE_MOST];
  *out = value_take_list(record, value, end, ';', param->most, (size_t)most * sizeof **out);
  if (!*out) return false;
  *size = (struct motion_size){0};
  for (const char *row = value;; size->rows++) {
    const char *semicolon = memchr(row, ';', (size_t)(end - row)), *row_end = semicolon ? semicolon : end;
    double *at = size->rows < param->most ? *out + (ptrdiff_t)size->rows * size->width : spare;
    int32_t width = read_row(row, row_end, most, at);
    if (size->rows == 0) size->width = width;
    if (width == 0 || width != size->width) return false;
    if (!semicolon) break;
    row = value_after(semicolon, end);
  }
  return ++size->rows >= param->least;
}

static bool read_poses(const struct param *param, const char *value, const char *end, void *record) {
  const struct motion_size *size = (const void *)((const char *)record + param->second);
  return read_rows(param, value, end, record, MOTION_POSE_MOST) &&
         (size->width == 1 + POSE_QUATERNION || size->width == 1 + POSE_MATRIX);
}

static bool read_twists(const struct param *param, const char *value, const char *end, void *record) {
  const struct motion_size *size = (const void *)((const char *)record + param->second);
  return read_rows(param, value, end, record, MOTION_TWIST) && size->width == MOTION_TWIST;
}

// Writes a string that a client can put into a query unchanged.
static void write_rows(const struct param *param, const void *record, struct text *out) {
  const struct motion_size *size = (const void *)((const char *)record + param->second);
  const double *values = *(double *const *)(const void *)((const char *)record + param->offset);
  int32_t rows = size->rows < (int32_t)param->most ? size->rows : (int32_t)param->most;
  json_begin_string(out);
  for (int32_t i = 0; i < rows * size->width; i++) {
    if (i) text_put(out, i % size->width ? "," : ";");
    text_double(out, values[i]);
  }
  json_end(out);
}

const struct value_type value_pose_rows = {"rows", false, read_poses, write_rows, NULL, NULL};
const struct value_type value_twist_rows = {"rows", false, read_twists, write_rows, NULL, NULL};

// ---- rigid motions --------------------------------------------------------------------------------------------------

// Velocities in metres and radians per second.
struct twist {
  double v[3], w[3];
};

static double square(const double a[3]) { return (a[0] * a[0] + a[1] * a[1]) + a[2] * a[2]; }

static void cross(const double a[3], const double b[3], double out[3]) {
  out[0] = a[1] * b[2] - a[2] * b[1];
  out[1] = a[2] * b[0] - a[0] * b[2];
  out[2] = a[0] * b[1] - a[1] * b[0];
}

// The rotation `identity + a W + b W W`, where W is the matrix of the cross product with w.
static void rotation_of(const double w[3], double a, double b, double out[9]) {
  const double square_sum = square(w);
  const double turn[9] = {0, -w[2], w[1], w[2], 0, -w[0], -w[1], w[0], 0};
  for (int i = 0; i < 3; i++)
    for (int j = 0; j < 3; j++) {
      double second = w[i] * w[j] - (i == j ? square_sum : 0);
      out[3 * i + j] = (i == j ? 1 : 0) + (a * turn[3 * i + j] + b * second);
    }
}

// The exponential map. For angle^2 < 1/16 the series have the precision of a double.
static struct pose moved_for(const struct twist *twist, double seconds) {
  double w[3], shift[3], wv[3], wwv[3];
  for (int i = 0; i < 3; i++) w[i] = twist->w[i] * seconds, shift[i] = twist->v[i] * seconds;
  double z = square(w), a, b, c;
  if (z < 1.0 / 16) {
    a = 1 - z / 6 * (1 - z / 20 * (1 - z / 42 * (1 - z / 72 * (1 - z / 110))));
    b = (1 - z / 12 * (1 - z / 30 * (1 - z / 56 * (1 - z / 90 * (1 - z / 132))))) / 2;
    c = (1 - z / 20 * (1 - z / 42 * (1 - z / 72 * (1 - z / 110 * (1 - z / 156))))) / 6;
  } else {
    double angle = sqrt(z), sine, cosine;
    angle = angle < VX_MOST_RADIANS ? angle : VX_MOST_RADIANS;
    vx_sincos(angle, &sine, &cosine);
    a = sine / angle;
    b = (1 - cosine) / z;
    c = (1 - a) / z;
  }
  struct pose pose;
  rotation_of(w, a, b, pose.rotation);
  cross(w, shift, wv);
  cross(w, wv, wwv);
  for (int i = 0; i < 3; i++) pose.translation[i] = shift[i] + (b * wv[i] + c * wwv[i]);
  return pose;
}

// The quaternion w, x, y, z of a rotation, with w >= 0. The largest of the four gives the others.
static void quaternion_of(const double m[9], double q[4]) {
  const double fours[4] = {1 + ((m[0] + m[4]) + m[8]), 1 + ((m[0] - m[4]) - m[8]), 1 + ((m[4] - m[0]) - m[8]),
                           1 + ((m[8] - m[0]) - m[4])};
  const double products[4][4] = {{0, m[7] - m[5], m[2] - m[6], m[3] - m[1]},
                                 {m[7] - m[5], 0, m[3] + m[1], m[2] + m[6]},
                                 {m[2] - m[6], m[3] + m[1], 0, m[7] + m[5]},
                                 {m[3] - m[1], m[2] + m[6], m[7] + m[5], 0}};
  int most = 0;
  for (int i = 1; i < 4; i++) most = fours[i] > fours[most] ? i : most;
  double twice = sqrt(fours[most]);
  for (int i = 0; i < 4; i++) q[i] = i == most ? twice / 2 : products[most][i] / (2 * twice);
  if (!(q[0] < 0)) return;
  for (int i = 0; i < 4; i++) q[i] = -q[i];
}

// The logarithm: the twist that moves a frame to `pose` in that time, in the frame's own coordinates. The turn is at
// most half a turn.
static struct twist twist_to(const struct pose *pose, double seconds) {
  double q[4], wv[3], wwv[3];
  const double *shift = pose->translation;
  quaternion_of(pose->rotation, q);
  double sine = sqrt(square(q + 1)), half = vx_atan2(sine, q[0]), z = 4 * half * half;
  double factor = sine > 0 ? 2 * half / sine : 2;
  double k = z > 1e-8 ? (1 - half * q[0] / sine) / z : 1.0 / 12;
  struct twist twist;
  for (int i = 0; i < 3; i++) twist.w[i] = factor * q[i + 1];
  cross(twist.w, shift, wv);
  cross(twist.w, wv, wwv);
  for (int i = 0; i < 3; i++) twist.v[i] = ((shift[i] - wv[i] / 2) + k * wwv[i]) / seconds;
  for (int i = 0; i < 3; i++) twist.w[i] /= seconds;
  return twist;
}

static struct twist mounted(const struct twist *twist, const struct pose *mount) {
  double wt[3];
  struct twist own = {0};
  cross(twist->w, mount->translation, wt);
  for (int i = 0; i < 3; i++)
    for (int j = 0; j < 3; j++) {
      own.w[i] += mount->rotation[3 * j + i] * twist->w[j];
      own.v[i] += mount->rotation[3 * j + i] * (twist->v[j] + wt[j]);
    }
  return own;
}

// ---- segments -------------------------------------------------------------------------------------------------------

// The motion in double, before it is rounded to float32.
struct course {
  const char *parameter;
  int32_t count;
  double first, last;  // the ends of the motion
  struct {
    double start;
    struct pose pose;
    struct twist twist;
  } parts[VX_MAX_SEGMENTS];
};

// False if there is no room.
static bool add(struct course *course, double start, double seconds, const struct pose *pose,
                const struct twist *twist) {
  int32_t pieces = 1;
  double angle = sqrt(square(twist->w)) * seconds;
  while (pieces <= VX_MAX_SEGMENTS && angle / pieces > VX_SEGMENT_TURN) pieces *= 2;
  if (pieces > VX_MAX_SEGMENTS - course->count) return false;
  for (int32_t i = 0; i < pieces; i++) {
    double passed = seconds * i / pieces;
    struct pose way = moved_for(twist, passed);
    course->parts[course->count].start = start + passed;
    course->parts[course->count].pose = pose_compose(pose, &way);
    course->parts[course->count++].twist = *twist;
  }
  return true;
}

static bool refuse_segments(const char *parameter, struct error *error) {
  return error_refuse(error, ERROR_IMPOSSIBLE, parameter,
                      "the motion needs more than %d segments; allowed: fewer rows, or less turning between them",
                      VX_MAX_SEGMENTS);
}

static bool refuse_times(const char *parameter, int32_t row, struct error *error) {
  return error_refuse(error, ERROR_IMPOSSIBLE, parameter, "t does not rise from row %d to %d of %s", (int)row - 1,
                      (int)row, parameter);
}

static struct pose pose_at(const struct course *course, double t) {
  int32_t k = 0;
  while (k + 1 < course->count && course->parts[k + 1].start <= t) k++;
  struct pose way = moved_for(&course->parts[k].twist, t - course->parts[k].start);
  return pose_compose(&course->parts[k].pose, &way);
}

static bool is_sound(const struct vx_motion *motion) {
  bool sound = vx_is_finite(motion->first) && vx_is_finite(motion->last);
  for (int32_t i = 0; i < motion->count; i++) {
    const struct vx_segment *segment = &motion->segments[i];
    for (int k = 0; k < 12; k++) sound = sound && vx_is_finite(segment->pose[k]);
    for (int k = 0; k < 3; k++) sound = sound && vx_are_finite(segment->v[k], segment->w[k], segment->start);
  }
  return sound;
}

// Expresses the course in the sensor's frame at `reference`, and rounds it to float32.
static bool round_course(const struct course *course, double reference, struct vx_motion *motion, struct error *error) {
  double first = course->first - VX_MOTION_MARGIN, last = course->last + VX_MOTION_MARGIN;
  if (!(first <= reference && reference <= last))
    return error_refuse(error, ERROR_IMPOSSIBLE, "deskew_reference",
                        "deskew_reference is %g, but the motion is known from %g to %g s; allowed: up to 0.1 s outside",
                        reference, course->first, course->last);
  struct pose frame = pose_at(course, reference);
  motion->count = course->count;
  motion->first = (float)(first - reference);
  motion->last = (float)(last - reference);
  for (int32_t i = 0; i < course->count; i++) {
    struct vx_segment *segment = &motion->segments[i];
    struct pose pose = pose_between(&frame, &course->parts[i].pose);
    segment->start = (float)(course->parts[i].start - reference);
    for (int k = 0; k < 12; k++)
      segment->pose[k] = (float)(k % 4 < 3 ? pose.rotation[3 * (k / 4) + k % 4] : pose.translation[k / 4]);
    for (int k = 0; k < 3; k++) segment->v[k] = (float)course->parts[i].twist.v[k];
    for (int k = 0; k < 3; k++) segment->w[k] = (float)course->parts[i].twist.w[k];
  }
  return is_sound(motion) ||
         error_refuse(error, ERROR_IMPOSSIBLE, course->parameter, "the motion has a velocity or a pose beyond float32");
}

// ---- poses ----------------------------------------------------------------------------------------------------------

// The rotation turns at a constant rate, the translation is linear.
static struct pose between(const struct pose *from, const struct pose *to, const struct twist *turn, double part) {
  const struct twist only_turn = {{0}, {turn->w[0], turn->w[1], turn->w[2]}};
  struct pose way = moved_for(&only_turn, part), pose = pose_compose(from, &way);
  for (int i = 0; i < 3; i++)
    pose.translation[i] = from->translation[i] + (to->translation[i] - from->translation[i]) * part;
  return pose;
}

static bool add_way(struct course *course, double start, double seconds, const struct pose *from, const struct pose *to,
                    int32_t pieces) {
  struct pose step = pose_between(from, to), at = *from;
  const struct twist turn = twist_to(&step, 1);
  for (int32_t i = 0; i < pieces; i++) {
    struct pose next = i + 1 < pieces ? between(from, to, &turn, (double)(i + 1) / pieces) : *to;
    step = pose_between(&at, &next);
    struct twist twist = twist_to(&step, seconds / pieces);
    if (!add(course, start + seconds * i / pieces, seconds / pieces, &at, &twist)) return false;
    at = next;
  }
  return true;
}

static bool take_pose(const double *rows, const struct motion_size *size, int32_t row, const struct pose *mount,
                      struct pose *pose, struct error *error) {
  struct pose given;
  const char *fault = pose_of(rows + (ptrdiff_t)row * size->width + 1, size->width - 1, &given);
  if (fault)
    return error_refuse(error, ERROR_NOT_RIGID, of_poses, "the pose of row %d of %s is not a rigid motion: %s",
                        (int)row, of_poses, fault);
  *pose = pose_compose(&given, mount);
  return true;
}

// Computes in the frame of the first pose, to keep precision if the poses are far from the origin.
bool motion_of_poses(const double *rows, const struct motion_size *size, bool slerp, const struct pose *mount,
                     double reference, struct vx_motion *motion, struct error *error) {
  struct course course = {.parameter = of_poses, .count = 0, .first = rows[0]};
  struct pose origin, last = pose_identity;
  if (size->rows > MOTION_POSES_MAX) return refuse_segments(of_poses, error);
  if (!take_pose(rows, size, 0, mount, &origin, error)) return false;
  for (int32_t i = 1; i < size->rows; i++) {
    const double *row = rows + (ptrdiff_t)i * size->width;
    double start = row[-size->width];
    struct pose pose;
    if (!(row[0] > start)) return refuse_times(of_poses, i, error);
    if (!take_pose(rows, size, i, mount, &pose, error)) return false;
    pose = pose_between(&origin, &pose);
    if (!add_way(&course, start, row[0] - start, &last, &pose, slerp ? SLERP_PIECES : 1))
      return refuse_segments(of_poses, error);
    last = pose;
    course.last = row[0];
  }
  return round_course(&course, reference, motion, error);
}

// ---- twists ---------------------------------------------------------------------------------------------------------

// Adds a segment, and moves `pose` to the segment's end.
static bool go_on(struct course *course, double start, double seconds, const struct twist *twist, struct pose *pose) {
  struct pose way = moved_for(twist, seconds);
  if (!add(course, start, seconds, pose, twist)) return false;
  *pose = pose_compose(pose, &way);
  return true;
}

// `t` and `twists` have `count` entries.
static bool add_twists(struct course *course, const double *t, const struct twist *twists, int32_t count) {
  struct pose pose = pose_identity;
  course->first = t[0];
  course->last = t[count - 1];
  if (!go_on(course, t[0] - VX_MOTION_MARGIN, VX_MOTION_MARGIN, &twists[0], &pose)) return false;
  for (int32_t i = 1; i < count; i++)
    if (!go_on(course, t[i - 1], t[i] - t[i - 1], &twists[i], &pose)) return false;
  return go_on(course, t[count - 1], VX_MOTION_MARGIN, &twists[count - 1], &pose);
}

bool motion_of_twists(const double *rows, const struct motion_size *size, const struct pose *mount, double reference,
                      struct vx_motion *motion, struct error *error) {
  struct course course = {.parameter = of_twists, .count = 0};
  struct twist twists[MOTION_TWISTS_MAX] = {0};
  double t[MOTION_TWISTS_MAX] = {0};
  if (size->rows > MOTION_TWISTS_MAX) return refuse_segments(of_twists, error);
  for (int32_t i = 0; i < size->rows; i++) {
    const double *row = rows + (ptrdiff_t)i * MOTION_TWIST;
    const struct twist given = {{row[1], row[2], row[3]}, {row[4], row[5], row[6]}};
    if (i > 0 && !(row[0] > t[i - 1])) return refuse_times(of_twists, i, error);
    t[i] = row[0];
    twists[i] = mounted(&given, mount);
  }
  if (!add_twists(&course, t, twists, size->rows)) return refuse_segments(of_twists, error);
  return round_course(&course, reference, motion, error);
}

bool motion_between(const struct pose *then, const struct pose *now, double seconds, double reference,
                    struct vx_motion *motion, struct error *error) {
  struct course course = {.parameter = of_stream, .count = 0};
  struct pose step = pose_between(then, now);
  const struct twist twist = twist_to(&step, seconds), twists[] = {twist, twist};
  const double t[] = {-seconds, 0};
  if (!add_twists(&course, t, twists, 2)) return refuse_segments(of_stream, error);
  return round_course(&course, reference, motion, error);
}
