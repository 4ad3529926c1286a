// The motion of a sensor: texts of rows, refusals, and the error of a point that kernels/deskew.h moves in float32.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "api/ops/deskew.h"
#include "api/ops/ops.h"
#include "api/params/motion.h"

static struct job_request request;
static struct error error;

static bool reads(const char *name, const char *value) {
  job_request_init(&request, VX_POINTS_OP);
  return job_request_set(&request, name, strlen(name), value, strlen(value), &error);
}

static void rows(void **state) {
  (void)state;
  static const char *const wrong[] = {"",
                                      "0",
                                      "0,1,2,3,4,5",
                                      "0,0,0,0,0,0,0;",
                                      ";0,0,0,0,0,0,0",
                                      "0,0,0,0,0,0,0,0",
                                      "0,0,0,0,0,0,0;1,0",
                                      "0,0,0,0,0,0,nan",
                                      "0,0,0,0,0,0,0;;1,0,0,0,0,0,0"};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) assert_false(reads("deskew_twists", wrong[i]));
  assert_false(reads("deskew_poses", "0,0,0,0,1,0,0,0"));  // a single pose is not a motion
  assert_false(reads("deskew_poses", "0,0,0,0,1,0,0,0;1,1,0,0,0,0,1,0,0,0,0,1,0,0,0,0,1"));
  assert_true(reads("deskew_twists", "0,1,2,3,4,5,6;0.5,1,2,3,4,5,6"));
  assert_int_equal(request.deskew.twists.rows, 2);
  assert_true(request.motion[7] == 0.5 && request.motion[13] == 6);
  assert_true(reads("deskew_poses", "0,1,0,0,0,0,1,0,0,0,0,1,0,0,0,0,1;1,1,0,0,0,0,1,0,0,0,0,1,0,0,0,0,1"));
  assert_int_equal(request.deskew.poses.width, 1 + POSE_MATRIX);
}

// Finishes a request with these parameters. Returns the kind of the error.
static enum error_kind finish(const char *const *items) {
  static const char *const base[] = {"fields", "x,y,z,t", "time_field", "t", NULL};
  error = (struct error){.kind = ERROR_NONE};
  job_request_init(&request, VX_POINTS_OP);
  for (int part = 0; part < 2; part++)
    for (const char *const *item = part ? items : base; *item; item += 2)
      if (!job_request_set(&request, item[0], strlen(item[0]), item[1], strlen(item[1]), &error))
        fail_msg("%s", error.text);
  return job_request_finish(&request, &error) ? ERROR_NONE : error.kind;
}

#define FINISH(...) finish((const char *const[]){__VA_ARGS__, NULL})

static void requests(void **state) {
  (void)state;
  assert_int_equal(FINISH("deskew", "twists", "deskew_twists", "0,1,0,0,0,0,1"), ERROR_NONE);
  assert_int_equal(FINISH("deskew", "twists", "deskew_twists", "0,1,0,0,0,0,1", "mount", "0,0,0,1,0,0,0"), ERROR_NONE);
  assert_int_equal(FINISH("deskew", "twists"), ERROR_BAD_PARAMETER);
  assert_int_equal(FINISH("deskew", "poses", "deskew_twists", "0,1,0,0,0,0,1"), ERROR_BAD_PARAMETER);
  assert_int_equal(FINISH("deskew_twists", "0,1,0,0,0,0,1"), ERROR_BAD_PARAMETER);
  assert_int_equal(FINISH("deskew_reference", "0.1"), ERROR_BAD_PARAMETER);
  assert_int_equal(FINISH("mount", "0,0,0,1,0,0,0"), ERROR_BAD_PARAMETER);
  assert_int_equal(FINISH("deskew", "stream"), ERROR_BAD_PARAMETER);
  assert_int_equal(FINISH("time_field", "Z"), ERROR_BAD_PARAMETER);
  assert_int_equal(FINISH("time_field", "u"), ERROR_BAD_PARAMETER);
  assert_string_equal(error.parameter, "time_field");
  assert_int_equal(FINISH("time_origin", "stamp"), ERROR_BAD_PARAMETER);
  assert_int_equal(FINISH("time_origin", "1700000000123456789"), ERROR_NONE);
  assert_true(request.time.origin.whole == INT64_C(1700000000123456789) && !request.time.origin.fractional);
  assert_int_equal(FINISH("deskew", "twists", "deskew_twists", "1,1,0,0,0,0,1;1,1,0,0,0,0,1"), ERROR_IMPOSSIBLE);
  assert_non_null(strstr(error.text, "rise"));
  assert_int_equal(FINISH("deskew", "twists", "deskew_twists", "0,0,0,0,0,0,200"), ERROR_IMPOSSIBLE);
  assert_non_null(strstr(error.text, "64 segments"));
  assert_int_equal(FINISH("deskew", "twists", "deskew_twists", "0,1,0,0,0,0,1", "deskew_reference", "0.11"),
                   ERROR_IMPOSSIBLE);
  assert_string_equal(error.parameter, "deskew_reference");
  assert_int_equal(FINISH("deskew", "twists", "deskew_twists", "0,1e300,0,0,0,0,1"), ERROR_IMPOSSIBLE);
  assert_int_equal(FINISH("deskew", "poses", "deskew_poses", "0,0,0,0,1,0,0,0;1,0,0,0,2,0,0,0"), ERROR_NOT_RIGID);
}

// Rows that do not fit are counted, not stored.
static void too_many(void **state) {
  (void)state;
  char text[70 * 32];
  struct text rows = text_over(text, sizeof text);
  for (int i = 0; i < 70; i++) text_printf(&rows, "%s%d,0,0,0,1,0,0,0", i ? ";" : "", i);
  assert_int_equal(FINISH("deskew", "poses", "deskew_poses", text), ERROR_IMPOSSIBLE);
  assert_int_equal(request.deskew.poses.rows, 70);
  assert_non_null(strstr(error.text, "64 segments"));
}

// ---- distances ------------------------------------------------------------------------------------------------------

// The exact motion: a turn about z with angular velocity `turn`, while the frame moves ahead with `speed`.
static void move_exactly(double speed, double turn, double t, const double p[3], double out[3]) {
  double sine = sin(turn * t), cosine = cos(turn * t);
  out[0] = cosine * p[0] - sine * p[1] + speed * sine / turn;
  out[1] = sine * p[0] + cosine * p[1] + speed * (1 - cosine) / turn;
  out[2] = p[2];
}

// The greatest error, in metres, of points 80 m from the sensor over a sweep of 0.1 s.
static double farthest(const struct vx_motion *motion, double speed, double turn) {
  double most = 0;
  for (int i = 0; i <= 1000; i++) {
    float t = (float)(i / 10000.0), angle = (float)i * 0.7f;
    double p[3] = {80 * cos((double)angle), 80 * sin((double)angle), 1.5}, exact[3];
    float point[3] = {(float)p[0], (float)p[1], (float)p[2]};
    for (int k = 0; k < 3; k++) p[k] = (double)point[k];
    move_exactly(speed, turn, (double)t, p, exact);
    vx_deskew(&motion->segments[vx_segment_at(motion->segments, motion->count, t, 0)], t, point);
    double dx = (double)point[0] - exact[0], dy = (double)point[1] - exact[1], dz = (double)point[2] - exact[2];
    double distance = sqrt(dx * dx + dy * dy + dz * dz);
    most = distance > most ? distance : most;
  }
  return most;
}

static void accuracy(void **state) {
  (void)state;
  static const double motions[][3] = {{25, 0.8, 2e-5}, {1, 8, 2e-5}, {25, 25, 3e-5}};  // m/s, rad/s, error in m
  struct vx_motion motion;
  for (size_t i = 0; i < sizeof motions / sizeof *motions; i++) {
    double speed = motions[i][0], turn = motions[i][1];
    const double twists[] = {0, speed, 0, 0, 0, 0, turn, 0.1, speed, 0, 0, 0, 0, turn};
    assert_true(motion_of_twists(twists, &(struct motion_size){2, MOTION_TWIST}, &pose_identity, 0, &motion, &error));
    double of_twists = farthest(&motion, speed, turn);
    double p[3] = {0}, at[3], half = turn * 0.1 / 2;
    move_exactly(speed, turn, 0.1, p, at);
    const double poses[] = {0, 0, 0, 0, 1, 0, 0, 0, 0.1, at[0], at[1], 0, cos(half), 0, 0, sin(half)};
    assert_true(motion_of_poses(poses, &(struct motion_size){2, 1 + POSE_QUATERNION}, false, &pose_identity, 0, &motion,
                                &error));
    double of_poses = farthest(&motion, speed, turn);
    if (of_twists > motions[i][2] || of_poses > motions[i][2])
      fail_msg("%g m/s, %g rad/s: %g m by twists, %g m by poses", speed, turn, of_twists, of_poses);
  }
}

// The motion between two poses far from the origin, nearly half a turn apart.
static void between(void **state) {
  (void)state;
  struct vx_motion motion;
  const struct pose then = {{1, 0, 0, 0, 1, 0, 0, 0, 1}, {1e6, -2e6, 0}};
  double angle = 3.1, sine = sin(angle), cosine = cos(angle);
  const struct pose now = {{cosine, -sine, 0, sine, cosine, 0, 0, 0, 1}, {1e6 + 3, -2e6, 0}};
  assert_true(motion_between(&then, &now, 1, 0, &motion, &error));
  float point[3] = {0, 0, 0}, t = -1;  // the sensor 1 s ago, to be moved into the frame of `now`
  vx_deskew(&motion.segments[vx_segment_at(motion.segments, motion.count, t, 0)], t, point);
  assert_true(fabs((double)point[0] + 3 * cosine) < 1e-5 && fabs((double)point[1] - 3 * sine) < 1e-5);
  float still[3] = {5, 6, 7};
  vx_deskew(&motion.segments[vx_segment_at(motion.segments, motion.count, 0, 0)], 0, still);
  assert_true(still[0] == 5 && still[1] == 6 && still[2] == 7);
}

// An overflow makes a NaN, whose bits differ by processor. vx_deskew gives the same bits everywhere.
static void overflow(void **state) {
  (void)state;
  const struct vx_segment segment = {
      .pose = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1}, .v = {1e20f, 1e20f}, .w = {1e20f, 1e20f}};
  float point[3] = {1, 2, 3};
  vx_deskew(&segment, 0.1f, point);
  for (int axis = 0; axis < 3; axis++)
    if (point[axis] != point[axis]) assert_int_equal(vx_float_bits(point[axis]), VX_FLOAT_NAN);
  assert_true(point[0] != point[0]);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(rows),     cmocka_unit_test(requests),
                                     cmocka_unit_test(too_many), cmocka_unit_test(accuracy),
                                     cmocka_unit_test(between),  cmocka_unit_test(overflow)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
