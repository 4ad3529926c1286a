// Points are compared with what their model expects: each rule holds exactly when it should.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "api/wire/expect.h"
#include "kernels/half.h"

enum { ROWS = 65536, COLUMNS = 5 };  // a multiple of a sensor's period

static float rows[ROWS][COLUMNS];
static uint16_t halves[ROWS][COLUMNS];
static struct points_expected expected;

// 64 beams: those below the horizon meet the ground, a half of the points; the others meet walls.
static int prepare(void **state) {
  (void)state;
  for (int i = 0; i < ROWS; i++) {
    float angle = (float)i * 1e-4f, far = 4 + (float)(i % 64), z = i % 2 ? -1.73f : (float)(i % 7) * 0.5f;
    float row[COLUMNS] = {far * cosf(angle), far * sinf(angle), z, (float)(i % 101) / 100, (float)(i / 7000) * 0.05f};
    memcpy(rows[i], row, sizeof row);
  }
  expected = (struct points_expected){.num_columns = 5,
                                      .has_intensity = true,
                                      .has_ground = true,
                                      .intensity_range = {0, 1},
                                      .ground_z = -1.73,
                                      .columns = "x,y,z,intensity,time"};
  return 0;
}

static void scale(int column, float factor, float shift) {
  for (int i = 0; i < ROWS; i++) rows[i][column] = rows[i][column] * factor + shift;
}

enum { INTENSITY = 1, GROUND = 2, TIME = 4 };

static int bits_of(const struct points_seen *seen) {
  return seen->intensity_off * INTENSITY + seen->ground_off * GROUND + seen->time_off * TIME;
}

static int seen_of(int count) {
  struct vx_input points = vx_points_of(VX_FLOAT32, count, COLUMNS, rows);
  struct points_seen seen = points_look(&points, COLUMNS, &expected);
  return bits_of(&seen);
}

static void points_as_expected(void **state) {
  (void)state;
  assert_int_equal(seen_of(ROWS), 0);
  expected = (struct points_expected){.num_columns = 0};
  scale(2, 1, 5);
  assert_int_equal(seen_of(ROWS), 0);  // nothing is expected
}

static void intensity_of_another_range(void **state) {
  (void)state;
  scale(3, 255, 0);
  assert_int_equal(seen_of(ROWS), INTENSITY);
  expected.intensity_range[1] = 255;
  assert_int_equal(seen_of(ROWS), 0);
  scale(3, 1 / 255.0f, 0);
  assert_int_equal(seen_of(ROWS), INTENSITY);
  scale(3, 0, 0);
  assert_int_equal(seen_of(ROWS), 0);  // a sensor without intensity
  scale(3, 0, -200);
  assert_int_equal(seen_of(ROWS), INTENSITY);
}

static void intensity_has_a_column(void **state) {
  (void)state;
  scale(3, 255, 0);
  strcpy(expected.columns, "x,y,z,ring,intensity");  // seconds, in the range of intensity
  assert_int_equal(seen_of(ROWS), 0);
  expected.num_columns = 0;
  assert_int_equal(seen_of(ROWS), INTENSITY);
}

static void ground_elsewhere(void **state) {
  (void)state;
  static const float shifts[] = {0.9f, -1.8f, 2.4f, -2.4f};  // z of the ground, added one by one
  static const int seen[] = {0, 0, GROUND, 0};
  for (int i = 0; i < 4; i++) {
    scale(2, 1, shifts[i]);
    assert_int_equal(seen_of(ROWS), seen[i]);
  }
  expected.ground_z = 0.6;
  struct vx_input points = vx_points_of(VX_FLOAT32, ROWS, COLUMNS, rows);
  struct points_seen low = points_look(&points, COLUMNS, &expected);
  assert_true(low.ground_off && fabsf(low.ground + 2.63f) < 0.01f);
}

// Indoors most points meet walls: the ground is where the lowest of them are.
static void ground_below_walls(void **state) {
  (void)state;
  for (int i = 0; i < ROWS; i++) rows[i][2] = i % 7 ? (float)(i % 97) * 0.03f - 1.0f : -1.5f;
  assert_int_equal(seen_of(ROWS), 0);
  scale(2, 1, 1.2f);
  assert_int_equal(seen_of(ROWS), GROUND);
  struct vx_input points = vx_points_of(VX_FLOAT32, ROWS, COLUMNS, rows);
  struct points_seen seen = points_look(&points, COLUMNS, &expected);
  assert_true(fabsf(seen.ground + 0.3f) < 0.01f);
  scale(2, 1, -4);
  assert_int_equal(seen_of(ROWS), GROUND);
}

static void time_of_another_unit(void **state) {
  (void)state;
  scale(4, 1000, 0);  // milliseconds
  assert_int_equal(seen_of(ROWS), TIME);
  for (int i = 0; i < ROWS; i++) rows[i][4] = (float)(i % 32);
  assert_int_equal(seen_of(ROWS), TIME);
  struct vx_input points = vx_points_of(VX_FLOAT32, ROWS, COLUMNS, rows);
  struct points_seen seen = points_look(&points, COLUMNS - 1, &expected);
  assert_int_equal(bits_of(&seen), 0);  // a stream's own seconds
  scale(4, 0, 0);
  assert_int_equal(seen_of(ROWS), 0);  // one sweep
  strcpy(expected.columns, "x,y,z,intensity,ring");
  for (int i = 0; i < ROWS; i++) rows[i][4] = (float)(i % 32);
  assert_int_equal(seen_of(ROWS), 0);
}

static void few_points_say_nothing(void **state) {
  (void)state;
  scale(3, 255, 0);
  for (int count = 0; count < EXPECT_LEAST; count++) assert_int_equal(seen_of(count), 0);
  assert_int_equal(seen_of(EXPECT_LEAST), INTENSITY);
}

static void values_that_are_not_finite_are_left_out(void **state) {
  (void)state;
  for (int i = 0; i < ROWS; i += 3)
    for (int c = 0; c < COLUMNS; c++) rows[i][c] = c % 2 ? NAN : INFINITY;
  assert_int_equal(seen_of(ROWS), 0);
  for (int i = 0; i < ROWS; i++)
    for (int c = 0; c < COLUMNS; c++) rows[i][c] = NAN;
  assert_int_equal(seen_of(ROWS), 0);
}

static void float16_says_the_same(void **state) {
  (void)state;
  scale(3, 255, 0);
  scale(2, 1, 3);
  for (int i = 0; i < ROWS; i++)
    for (int c = 0; c < COLUMNS; c++) halves[i][c] = vx_float_to_half(rows[i][c]);
  struct vx_input points = vx_points_of(VX_FLOAT16, ROWS, COLUMNS, halves);
  struct points_seen seen = points_look(&points, COLUMNS, &expected);
  assert_int_equal(bits_of(&seen), INTENSITY + GROUND);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(points_as_expected, prepare),
      cmocka_unit_test_setup(intensity_of_another_range, prepare),
      cmocka_unit_test_setup(intensity_has_a_column, prepare),
      cmocka_unit_test_setup(ground_elsewhere, prepare),
      cmocka_unit_test_setup(ground_below_walls, prepare),
      cmocka_unit_test_setup(time_of_another_unit, prepare),
      cmocka_unit_test_setup(few_points_say_nothing, prepare),
      cmocka_unit_test_setup(values_that_are_not_finite_are_left_out, prepare),
      cmocka_unit_test_setup(float16_says_the_same, prepare),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
