// Comparing points with what their model expects.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "api/wire/expect.h"
#include "kernels/half.h"

enum { ROWS = 65536, COLUMNS = 5 };  // ROWS: a multiple of the number of beams

static float rows[ROWS][COLUMNS];
static uint16_t halves[ROWS][COLUMNS];
static struct points_expected expected;

// A hash that serves as a random number.
static uint32_t noise(uint32_t number) {
  number *= 2654435761u;
  return (number ^ number >> 15) * 2246822519u >> 8;
}

// A scan of 64 beams: odd beams meet the ground at z = -1.73, even beams walls above it.
static int prepare(void **state) {
  (void)state;
  for (int i = 0; i < ROWS; i++) {
    float angle = (float)i * 1e-4f, far = 4 + (float)(i % 64), z = i % 2 ? -1.73f : (float)(i % 7) * 0.5f;
    float row[COLUMNS] = {far * cosf(angle), far * sinf(angle), z, (float)(noise((uint32_t)i) % 101) / 100,
                          (float)(i / 7000) * 0.05f};
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

enum { INTENSITY = 1, GROUND = 2, TIME = 4, FEATURES = 8 };

static int bits_of(const struct points_seen *seen) {
  return (seen->intensity.fault != INTENSITY_GOOD) * INTENSITY + seen->ground.off * GROUND + seen->time.off * TIME +
         (seen->features.bad > 0) * FEATURES;
}

static struct points_seen inspect(int count, int32_t body_columns) {
  struct vx_input points = vx_points_of(VX_FLOAT32, count, COLUMNS, rows);
  return points_inspect(
      &(struct points_view){.points = &points, .num_clouds = 1, .point_counts = &count, .body_columns = body_columns},
      &expected);
}

static int seen_of(int count) {
  struct points_seen seen = inspect(count, COLUMNS);
  return bits_of(&seen);
}

static enum intensity_fault intensity_of(int count) { return inspect(count, COLUMNS).intensity.fault; }

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
  strcpy(expected.columns, "x,y,z,ring,intensity");
  for (int i = 0; i < ROWS; i++) rows[i][4] = (float)(noise((uint32_t)i) % 101) / 100;
  assert_int_equal(seen_of(ROWS), 0);
  expected.num_columns = 0;
  assert_int_equal(seen_of(ROWS), INTENSITY);
}

static void ground_elsewhere(void **state) {
  (void)state;
  static const float shifts[] = {0.9f, -1.8f, 2.4f, -2.4f};  // each moves the ground along z from its last place
  static const int seen[] = {0, 0, GROUND, 0};
  for (int i = 0; i < 4; i++) {
    scale(2, 1, shifts[i]);
    assert_int_equal(seen_of(ROWS), seen[i]);
  }
  expected.ground_z = 0.6;
  struct points_seen low = inspect(ROWS, COLUMNS);
  assert_true(low.ground.off && fabsf(low.ground.z + 2.63f) < 0.01f);
}

// Most points are on walls, as indoors.
static void ground_below_walls(void **state) {
  (void)state;
  for (int i = 0; i < ROWS; i++) rows[i][2] = i % 7 ? (float)(i % 97) * 0.03f - 1.0f : -1.5f;
  assert_int_equal(seen_of(ROWS), 0);
  scale(2, 1, 1.2f);
  assert_int_equal(seen_of(ROWS), GROUND);
  assert_true(fabsf(inspect(ROWS, COLUMNS).ground.z + 0.3f) < 0.01f);
  scale(2, 1, -4);
  assert_int_equal(seen_of(ROWS), GROUND);
}

static void time_of_another_unit(void **state) {
  (void)state;
  scale(4, 1000, 0);  // milliseconds
  assert_int_equal(seen_of(ROWS), TIME);
  for (int i = 0; i < ROWS; i++) rows[i][4] = (float)(i % 32);
  assert_int_equal(seen_of(ROWS), TIME);
  struct points_seen seen = inspect(ROWS, COLUMNS - 1);
  assert_int_equal(bits_of(&seen), 0);  // a stream adds its own time column, in seconds
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

// Columns whose range fits an intensity, but which have something else.
static void another_column_in_the_place_of_intensity(void **state) {
  (void)state;
  for (int i = 0; i < ROWS; i++) rows[i][3] = (float)(noise((uint32_t)i) % 101) / 100;
  assert_int_equal(intensity_of(ROWS), INTENSITY_GOOD);
  for (int i = 0; i < ROWS; i++) rows[i][3] = 0.25f;
  assert_int_equal(intensity_of(ROWS), INTENSITY_CONSTANT);
  for (int i = 0; i < ROWS; i++) rows[i][3] = (float)i * 0.1f / ROWS;  // seconds of single points
  assert_int_equal(intensity_of(ROWS), INTENSITY_TIMES);
  scale(3, -1, 0.1f);
  assert_int_equal(intensity_of(ROWS), INTENSITY_TIMES);
  for (int i = 0; i < ROWS; i++) rows[i][3] = (float)((i / 7000 * 3 + 4) % 10) * 0.05f;  // times of sweeps
  assert_int_equal(intensity_of(ROWS), INTENSITY_TIMES);
  for (int i = 0; i < ROWS; i++) rows[i][3] = noise((uint32_t)i) % 20 ? 0 : (float)(i % 100) / 100;
  assert_int_equal(intensity_of(ROWS), INTENSITY_GOOD);  // most points reflect nothing
  for (int i = 0; i < ROWS; i++) rows[i][3] = -(float)(noise((uint32_t)i) % 100) / 50;
  assert_int_equal(intensity_of(ROWS), INTENSITY_RANGE);  // an intensity below 0
}

// 32 beams, each with its own elevation.
static void rings_in_the_place_of_intensity(void **state) {
  (void)state;
  expected.has_ground = false;
  expected.intensity_range[1] = 255;
  for (int i = 0; i < ROWS; i++) {
    float far = 4 + (float)(i % 57), elevation = (float)(i % 32) * 0.023f - 0.53f, angle = (float)i * 1e-4f;
    float row[COLUMNS] = {far * cosf(angle) * cosf(elevation), far * sinf(angle) * cosf(elevation),
                          far * sinf(elevation), (float)(i % 32), 0};
    memcpy(rows[i], row, sizeof row);
  }
  assert_int_equal(intensity_of(ROWS), INTENSITY_RINGS);
  assert_int_equal(intensity_of(EXPECT_LEAST), INTENSITY_RINGS);  // one firing of all beams
  expected.intensity_range[1] = 1;
  assert_int_equal(intensity_of(ROWS), INTENSITY_RINGS);
  expected.intensity_range[1] = 255;
  for (int i = 0; i < ROWS; i++) rows[i][3] = (float)(noise((uint32_t)i) % 101);
  assert_int_equal(intensity_of(ROWS), INTENSITY_GOOD);
}

static void features_that_are_not_finite(void **state) {
  (void)state;
  for (int i = 0; i < ROWS; i += 3) rows[i][4] = i % 2 ? NAN : -INFINITY;
  struct points_seen seen = inspect(ROWS, COLUMNS);
  assert_int_equal(bits_of(&seen), FEATURES);
  assert_int_equal(seen.features.column, 4);
  assert_int_equal(seen.features.rows, EXPECT_SAMPLE);
  assert_true(seen.features.bad > EXPECT_SAMPLE / 4 && seen.features.bad < EXPECT_SAMPLE / 2);
  expected = (struct points_expected){.num_columns = 0};
  assert_int_equal(seen_of(ROWS), FEATURES);  // even if the model expects nothing
  assert_int_equal(seen_of(1), FEATURES);
  assert_int_equal(seen_of(0), 0);
}

// One odd cloud of a batch, which statistics of the whole batch would not show.
static void each_cloud_is_judged(void **state) {
  (void)state;
  enum { MOST = 64 };
  static const int sizes[] = {2, 16, MOST};
  for (int s = 0; s < 3; s++) {
    int32_t counts[MOST], clouds = sizes[s], odd = clouds - 1, each = ROWS / clouds;
    for (int c = 0; c < clouds; c++) counts[c] = each;
    prepare(NULL);
    for (int i = odd * each; i < ROWS; i++) rows[i][3] *= 255;
    struct vx_input points = vx_points_of(VX_FLOAT32, ROWS, COLUMNS, rows);
    const struct points_view view = {
        .points = &points, .num_clouds = clouds, .point_counts = counts, .body_columns = COLUMNS};
    struct points_seen seen = points_inspect(&view, &expected);
    assert_int_equal(bits_of(&seen), INTENSITY);
    assert_int_equal(seen.intensity.cloud, odd);
    for (int i = odd * each; i < ROWS; i++) rows[i][3] = NAN;
    seen = points_inspect(&view, &expected);
    assert_int_equal(bits_of(&seen), FEATURES);
    assert_int_equal(seen.features.cloud, odd);
    assert_int_equal(seen.features.bad, seen.features.rows);
  }
}

struct reads {
  int most, count;  // reads that succeed; reads so far
};

static bool read_bytes(void *ctx, uint64_t at, size_t bytes, char *out) {
  struct reads *reads = ctx;
  assert_true(at + bytes <= sizeof rows);
  memcpy(out, (const char *)rows + at, bytes);
  return reads->count++ < reads->most;
}

// The number of inspected rows is bounded for any number of clouds.
static void the_cost_is_bounded(void **state) {
  (void)state;
  static int32_t counts[VX_MAX_CLOUDS];
  struct vx_input points = vx_points_of(VX_FLOAT32, ROWS, COLUMNS, NULL);
  for (int32_t clouds = 1; clouds <= VX_MAX_CLOUDS; clouds *= 2) {
    struct reads reads = {.most = ROWS};
    for (int c = 0; c < clouds; c++) counts[c] = ROWS / clouds;
    const struct points_view view = {&points, clouds, counts, COLUMNS, read_bytes, &reads, false};
    struct points_seen seen = points_inspect(&view, &expected);
    assert_int_equal(bits_of(&seen), 0);
    assert_int_equal(reads.count, clouds * EXPECT_SAMPLE < EXPECT_ROWS ? clouds * EXPECT_SAMPLE : EXPECT_ROWS);
  }
}

// The first pass notes which rows it needs, so that the caller can fetch them at once for the second pass.
static void points_that_are_read_at_once(void **state) {
  (void)state;
  static struct view_sample sample;
  static char read[SAMPLE_BYTES];
  scale(3, 255, 0);
  int32_t count = ROWS;
  struct vx_input points = vx_points_of(VX_FLOAT32, ROWS, COLUMNS, NULL);
  struct points_view view = {&points, 1, &count, COLUMNS, view_note, &sample, true};
  struct points_seen seen = points_inspect(&view, &expected);
  assert_int_equal(bits_of(&seen), 0);
  assert_int_equal(sample.count, EXPECT_SAMPLE);
  for (int i = 0; i < sample.count; i++)
    memcpy(read + sample.piece[i].to, (const char *)rows + sample.piece[i].from, sample.piece[i].bytes);
  sample.bytes = read;
  view.read = view_read;
  view.only_reads = false;
  seen = points_inspect(&view, &expected);
  assert_int_equal(bits_of(&seen), INTENSITY);
  char row[sizeof *rows];
  sample.next = 0;
  assert_true(view_read(&sample, sample.piece[1].from, sizeof row, row));  // skips piece 0
  assert_memory_equal(row, (const char *)rows + sample.piece[1].from, sizeof row);
  assert_false(view_read(&sample, sample.piece[0].from, sizeof row, row));
  while (view_note(&sample, 0, sizeof row, row)) continue;
  assert_true(sample.count == VX_MAX_PIECES || sample.count == SAMPLE_BYTES / (int)sizeof row);
}

static void points_that_cannot_be_read(void **state) {
  (void)state;
  scale(3, 255, 0);
  int32_t count = ROWS;
  struct vx_input points = vx_points_of(VX_FLOAT32, ROWS, COLUMNS, NULL);
  for (int most = 0; most <= EXPECT_SAMPLE; most += EXPECT_SAMPLE) {
    struct reads reads = {.most = most};
    const struct points_view view = {&points, 1, &count, COLUMNS, read_bytes, &reads, false};
    struct points_seen seen = points_inspect(&view, &expected);
    assert_int_equal(bits_of(&seen), most ? INTENSITY : 0);
  }
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
  int32_t count = ROWS;
  scale(3, 255, 0);
  scale(2, 1, 3);
  for (int i = 0; i < ROWS; i++)
    for (int c = 0; c < COLUMNS; c++) halves[i][c] = vx_float_to_half(rows[i][c]);
  struct vx_input points = vx_points_of(VX_FLOAT16, ROWS, COLUMNS, halves);
  struct points_seen seen = points_inspect(
      &(struct points_view){.points = &points, .num_clouds = 1, .point_counts = &count, .body_columns = COLUMNS},
      &expected);
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
      cmocka_unit_test_setup(another_column_in_the_place_of_intensity, prepare),
      cmocka_unit_test_setup(rings_in_the_place_of_intensity, prepare),
      cmocka_unit_test_setup(features_that_are_not_finite, prepare),
      cmocka_unit_test_setup(each_cloud_is_judged, prepare),
      cmocka_unit_test_setup(the_cost_is_bounded, prepare),
      cmocka_unit_test_setup(points_that_are_read_at_once, prepare),
      cmocka_unit_test_setup(points_that_cannot_be_read, prepare),
      cmocka_unit_test_setup(values_that_are_not_finite_are_left_out, prepare),
      cmocka_unit_test_setup(float16_says_the_same, prepare),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
