// Poses: their texts, rigid motions, composition. Also which parameters a stream's request must have.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "api/ops/ops.h"
#include "api/ops/stream.h"
#include "api/params/pose.h"

static const struct param row = {.name = "pose", .type = &value_pose, .offset = 0, .allowed = ""};

static bool reads(const char *text, struct pose_numbers *numbers) {
  return param_read(&row, text, strlen(text), numbers);
}

static void text_of_pose(void **state) {
  (void)state;
  struct pose_numbers numbers;
  static const char *const wrong[] = {"",
                                      "1",
                                      "1,2,3,4,5,6",
                                      "1,2,3,4,5,6,7,8",
                                      "0,0,0,nan,0,0,0",
                                      "0,0,0,1,0,0,0,",
                                      "0,0,0,1,0,0,1e999",
                                      "1,0,0,0,0,1,0,0,0,0,1,0,0,0,0,1,1",
                                      "a,0,0,1,0,0,0"};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) assert_false(reads(wrong[i], &numbers));
  assert_true(reads("456789.12345678,0,0,1,0,0,0", &numbers));
  assert_int_equal(numbers.count, POSE_QUATERNION);
  assert_true(numbers.values[0] == 456789.12345678);  // as double
  assert_true(reads("1,0,0,0,0,1,0,0,0,0,1,0,0,0,0,1", &numbers));
  assert_int_equal(numbers.count, POSE_MATRIX);
}

static const char *fault_of(const char *text) {
  struct pose_numbers numbers;
  struct pose pose;
  assert_true(reads(text, &numbers));
  return pose_of(numbers.values, numbers.count, &pose);
}

static void rigid_motions(void **state) {
  (void)state;
  assert_null(fault_of("1,0,0,5,0,1,0,6,0,0,1,7,0,0,0,1"));
  assert_null(fault_of("0,-1,0,5,1,0,0,6,0,0,1,7,0,0,0,1"));
  assert_null(fault_of("0.707107,-0.707107,0,0,0.707107,0.707107,0,0,0,0,1,0,0,0,0,1"));  // six digits
  assert_null(fault_of("0,0,0,0.70711,0,0,0.70711"));
  assert_non_null(strstr(fault_of("1,0,0,5,0,1,0,6,0,0,1,7,0,0,0,2"), "last row"));
  assert_non_null(strstr(fault_of("1,0,0,5,0,1,0,6,0,0,1,7,0.1,0,0,1"), "last row"));
  assert_non_null(strstr(fault_of("2,0,0,5,0,1,0,6,0,0,1,7,0,0,0,1"), "not a rotation"));
  assert_non_null(strstr(fault_of("1,0.1,0,5,0,1,0,6,0,0,1,7,0,0,0,1"), "not a rotation"));
  assert_non_null(strstr(fault_of("1,0,0,5,0,1,0,6,0,0,-1,7,0,0,0,1"), "reflection"));
  assert_non_null(
      strstr(fault_of("1e200,0,0,0,0,1,0,0,0,0,1,0,0,0,0,1"), "not a rotation"));  // the square of 1e200 is infinite
  assert_non_null(strstr(fault_of("0,0,0,1,1,0,0"), "length"));
  assert_non_null(strstr(fault_of("0,0,0,0,0,0,0"), "length"));
}

// A quarter turn about z, one metre along x.
static const struct pose turned = {{0, -1, 0, 1, 0, 0, 0, 0, 1}, {1, 0, 0}};

static void composed(void **state) {
  (void)state;
  struct pose twice = pose_compose(&turned, &turned), same = pose_compose(&pose_identity, &turned);
  const struct pose half = {{-1, 0, 0, 0, -1, 0, 0, 0, 1}, {1, 1, 0}};
  assert_memory_equal(&same, &turned, sizeof same);
  for (int i = 0; i < 9; i++) assert_true(twice.rotation[i] == half.rotation[i]);
  for (int i = 0; i < 3; i++) assert_true(twice.translation[i] == half.translation[i]);
}

// A point one metre ahead of the frame `then` is at the origin of `now`.
static void motion(void **state) {
  (void)state;
  struct pose then = turned, now = turned;
  float matrix[16];
  now.translation[1] += 1;
  pose_motion(&now, &then, matrix);
  assert_true(matrix[0] == 1 && matrix[5] == 1 && matrix[10] == 1 && matrix[15] == 1);
  assert_true(matrix[3] == -1 && matrix[7] == 0 && matrix[11] == 0);
  then.translation[0] = 5e6 + 0.125, now.translation[0] = 5e6;  // float32 has steps of 0.5 near 5e6
  now.translation[1] = then.translation[1];
  pose_motion(&now, &then, matrix);
  assert_true(matrix[3] == 0 && matrix[7] == -0.125f);
}

// ---- requests -------------------------------------------------------------------------------------------------------

static struct job_request request;
static struct error error;

static bool finishes(const char *const *items) {
  static const char *const grid[] = {"point_cloud_range", "-1,-1,-1,1,1,1", "voxel_size", "1,1,1", NULL};
  job_request_init(&request, VX_VOXELIZE);
  for (int part = 0; part < 2; part++)
    for (const char *const *item = part ? items : grid; *item; item += 2)
      if (!job_request_set(&request, item[0], strlen(item[0]), item[1], strlen(item[1]), &error)) return false;
  return job_request_finish(&request, &error);
}
#define FINISHES(...) finishes((const char *const[]){__VA_ARGS__, NULL})

#define POSE "pose", "0,0,0,1,0,0,0"

static void refused(const char *parameter, enum error_kind kind) {
  assert_string_equal(error.parameter, parameter);
  assert_int_equal(error.kind, kind);
}

static void terms(void **state) {
  (void)state;
  assert_true(FINISHES("stream", "roof", POSE, "time", "1.5", "time_column", "yes"));
  assert_int_equal(request.stream.sweeps, 1);
  assert_int_equal(job_request_columns(&request), 5);
  assert_int_equal(request.job.inputs[VX_POINTS].dims[1], 5);
  assert_int_equal(job_request_row_bytes(&request), 16);
  assert_false(FINISHES("stream", "roof", "time", "1"));
  refused("pose", ERROR_BAD_PARAMETER);
  assert_false(FINISHES("stream", "roof", POSE));
  refused("time", ERROR_BAD_PARAMETER);
  assert_false(FINISHES("sweeps", "3"));
  refused("sweeps", ERROR_BAD_PARAMETER);
  assert_false(FINISHES("stream", "a/b", POSE, "time", "1"));
  refused("stream", ERROR_BAD_PARAMETER);
  assert_false(FINISHES("stream", ".", POSE, "time", "1") || FINISHES("stream", "..", POSE, "time", "1"));
  refused("stream", ERROR_BAD_PARAMETER);
  assert_true(FINISHES("stream", ".a", POSE, "time", "1") && FINISHES("stream", "...", POSE, "time", "1"));
  assert_false(FINISHES("stream", "a", "streams", "a,..", POSE, "time", "1"));
  refused("streams", ERROR_BAD_PARAMETER);
  assert_false(FINISHES("stream", "roof", "time", "1", "pose", "0,0,0,2,0,0,0"));
  refused("pose", ERROR_NOT_RIGID);
  assert_false(FINISHES("stream", "roof", "time", "1", POSE, "mount", "0,0,0,2,0,0,0"));
  refused("mount", ERROR_NOT_RIGID);
  assert_false(FINISHES("stream", "roof", "streams", "front,rear", POSE, "time", "1"));
  refused("streams", ERROR_BAD_PARAMETER);
  assert_false(FINISHES("stream", "roof", "streams", "roof,r ar", POSE, "time", "1"));
  refused("streams", ERROR_BAD_PARAMETER);
  assert_false(FINISHES("stream", "a", "streams", "a,b,c", POSE, "time", "1", "sweeps", "22"));
  refused("sweeps", ERROR_BAD_PARAMETER);
  assert_true(FINISHES("stream", "a", "streams", "a,b,c", POSE, "time", "1", "sweeps", "21"));
}

// ---- several sweeps in a body ---------------------------------------------------------------------------------------

#define COUNTS "stream", "roof", "point_counts", "10,20"
#define TIMES "times", "2,1.5"
#define POSES "poses", "0,0,0,1,0,0,0,7,0,0,0,1,0,0"

static void several_sweeps(void **state) {
  (void)state;
  assert_true(FINISHES(COUNTS, TIMES, POSES, "sweeps", "3"));
  assert_int_equal(stream_sweeps(&request), 2);
  assert_false(job_request_split(&request, 31, &error));
  refused("point_counts", ERROR_BAD_BODY);
  assert_true(FINISHES(COUNTS, TIMES, POSES, "sweeps", "3"));
  assert_true(job_request_split(&request, 30, &error));
  assert_int_equal(request.num_clouds, 1);
  struct body_sweep older = stream_sweep(&request, 1);
  assert_true(older.time == 1.5 && older.points == 20 && older.pose.translation[0] == 7);
  assert_true(older.pose.rotation[0] == 1 && older.pose.rotation[4] == -1);
  assert_true(FINISHES(COUNTS, TIMES, POSES));
  assert_int_equal(request.stream.sweeps, 2);  // the default of `sweeps`
  assert_true(FINISHES(COUNTS, TIMES, "poses", "1,0,0,5,0,1,0,6,0,0,1,7,0,0,0,1,1,0,0,8,0,1,0,6,0,0,1,7,0,0,0,1"));
  assert_true(stream_sweep(&request, 1).pose.translation[0] == 8);
}

static void refused_lists(void **state) {
  (void)state;
  static const struct {
    const char *items[12];
    const char *parameter;
    enum error_kind kind;
  } cases[] = {
      {{COUNTS, TIMES}, "poses", ERROR_BAD_PARAMETER},
      {{COUNTS, POSES}, "times", ERROR_BAD_PARAMETER},
      {{COUNTS, POSE, "time", "1"}, "times", ERROR_BAD_PARAMETER},
      {{"stream", "roof", TIMES, POSES}, "point_counts", ERROR_BAD_PARAMETER},
      {{COUNTS, TIMES, POSES, "time", "1"}, "time", ERROR_BAD_PARAMETER},
      {{COUNTS, TIMES, POSES, POSE}, "pose", ERROR_BAD_PARAMETER},
      {{COUNTS, TIMES, POSES, "sweeps", "1"}, "point_counts", ERROR_BAD_PARAMETER},
      {{COUNTS, POSES, "times", "2,2"}, "times", ERROR_BAD_PARAMETER},
      {{COUNTS, POSES, "times", "1,2"}, "times", ERROR_BAD_PARAMETER},
      {{COUNTS, POSES, "times", "3,2,1"}, "times", ERROR_BAD_PARAMETER},
      {{COUNTS, POSES, "times", "3,nan"}, "times", ERROR_BAD_PARAMETER},
      {{COUNTS, TIMES, "poses", "0,0,0,1,0,0,0"}, "poses", ERROR_BAD_PARAMETER},
      {{COUNTS, TIMES, "poses", "0,0,0,1,0,0,0,0,0,0,1,0,0,0,0"}, "poses", ERROR_BAD_PARAMETER},
      {{COUNTS, TIMES, "poses", "0,0,0,1,0,0,0,0,0,0,2,0,0,0"}, "poses", ERROR_NOT_RIGID},
      {{TIMES}, "times", ERROR_BAD_PARAMETER},
      {{POSES}, "poses", ERROR_BAD_PARAMETER},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    assert_false(finishes(cases[i].items));
    refused(cases[i].parameter, cases[i].kind);
  }
  assert_non_null(strstr(error.text, "without stream"));
}

// The most sweeps, each with a pose of 16 numbers, some of them long.
static void most_sweeps(void **state) {
  (void)state;
  static char counts[100], times[2000], poses[20000];
  static const char pose[] = "1,0,0,-2.2250738585072014e-308,0,1,0,-2.2250738585072014e-308,0,0,1,1e300,0,0,0,1";
  counts[0] = times[0] = poses[0] = '\0';
  for (int number = 0; number < STREAM_SWEEPS_MAX + 1; number++) {
    const char *comma = number ? "," : "";
    snprintf(counts + strlen(counts), sizeof counts - strlen(counts), "%s1", comma);
    snprintf(times + strlen(times), sizeof times - strlen(times), "%s%d", comma, -number);
    snprintf(poses + strlen(poses), sizeof poses - strlen(poses), "%s%s", comma, pose);
    if (number == STREAM_SWEEPS_MAX - 1)
      assert_true(FINISHES("stream", "roof", "point_counts", counts, "times", times, "poses", poses));
  }
  assert_false(FINISHES("stream", "roof", "point_counts", counts, "times", "1", POSES));
  refused("point_counts", ERROR_BAD_PARAMETER);
  assert_false(FINISHES("stream", "roof", "point_counts", counts, "times", times, POSES));
  refused("times", ERROR_BAD_PARAMETER);
  assert_false(FINISHES(COUNTS, TIMES, "poses", poses));
  refused("poses", ERROR_BAD_PARAMETER);
}

// stream_next gives the names in `streams` in order; without `streams`, the stream's own name.
static void names(void **state) {
  (void)state;
  char name[STREAM_NAME_SIZE];
  struct stream_terms stream = {.name = "b", .joined = "front,b,left", .num_joined = 3};
  size_t cursor = 0;
  assert_true(stream_next(&stream, &cursor, name));
  assert_string_equal(name, "front");
  assert_true(stream_next(&stream, &cursor, name));
  assert_string_equal(name, "b");
  assert_true(stream_next(&stream, &cursor, name));
  assert_string_equal(name, "left");
  assert_false(stream_next(&stream, &cursor, name));
  stream.num_joined = 0;
  cursor = 0;
  assert_true(stream_next(&stream, &cursor, name));
  assert_string_equal(name, "b");
  assert_false(stream_next(&stream, &cursor, name));
}

// 64 columns and the time column are too many.
static void too_many_columns(void **state) {
  (void)state;
  assert_true(FINISHES("stream", "roof", POSE, "time", "1", "num_features", "64", "time_column", "yes"));
  assert_true(job_request_split(&request, 10, &error));
  assert_false(job_request_join(&request, 10, &error));
  refused("time_column", ERROR_BAD_PARAMETER);
  assert_true(FINISHES("stream", "roof", POSE, "time", "1", "num_features", "63", "time_column", "yes"));
  assert_true(job_request_split(&request, 10, &error));
  assert_true(job_request_join(&request, 25, &error));
  assert_int_equal(request.point_counts[0], 25);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(text_of_pose),     cmocka_unit_test(rigid_motions),  cmocka_unit_test(composed),
      cmocka_unit_test(motion),           cmocka_unit_test(terms),          cmocka_unit_test(names),
      cmocka_unit_test(too_many_columns), cmocka_unit_test(several_sweeps), cmocka_unit_test(refused_lists),
      cmocka_unit_test(most_sweeps),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
