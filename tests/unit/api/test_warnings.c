// Warnings: when each kind is given. A guessed number of columns is right, or there is no guess.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/wire/formats.h"
#include "api/wire/gather.h"
#include "api/wire/join.h"
#include "api/wire/warnings.h"
#include "kernels/half.h"

enum { ROWS = 840, MOST = 12, VALUES = ROWS * MOST };  // whole rows of 3 to 8 columns

static float body[VALUES];
static uint16_t halves[VALUES];

static bool read_bytes(void *ctx, uint64_t at, size_t bytes, char *out) {
  memcpy(out, (const char *)((const struct vx_input *)ctx)->data + at, bytes);
  return true;
}

static bool read_nothing(void *ctx, uint64_t at, size_t bytes, char *out) {
  (void)ctx, (void)at;
  memset(out, 1, bytes);
  return false;
}

// Inspects the points in memory. Points read by a callback give the same result; a callback that fails gives none.
static struct inspection inspect(const struct vx_input *points, bool form) {
  struct vx_input shared = *points;
  const struct inspection inspected = body_inspect(&(struct points_view){.points = points}, form),
                          copied = body_inspect(
                              &(struct points_view){.points = points, .read = read_bytes, .ctx = &shared}, form),
                          lost = body_inspect(&(struct points_view){.points = points, .read = read_nothing}, form);
  assert_int_equal(copied.columns, inspected.columns);
  assert_true(copied.hint == inspected.hint);
  assert_true(lost.columns == 0 && !lost.hint);
  return inspected;
}

static int32_t columns_of(int said, int64_t values) {
  struct vx_input points = vx_points_of(VX_FLOAT32, values / said, said, body);
  struct inspection inspected = inspect(&points, false);
  int32_t columns = inspected.columns;
  if (inspected.hint) fail_msg("%s", inspected.hint);
  for (int64_t i = 0; i < values; i++) halves[i] = vx_float_to_half(body[i]);
  points = vx_points_of(VX_FLOAT16, values / said, said, halves);
  assert_int_equal(inspect(&points, false).columns, columns);
  return columns;
}

static uint32_t seed = 1;

static uint32_t bits(void) {
  seed = seed * 1664525u + 1013904223u;
  return seed ^ seed >> 16;
}

static float uniform(float low, float high) { return low + (high - low) * (float)(bits() >> 8) / (float)(1 << 24); }

// ---- columns --------------------------------------------------------------------------------------------------------

// One turn of a sensor: x, y, z, intensity, ring, time and so on.
static void columns_of_a_scan_are_recognized(void **state) {
  (void)state;
  for (int columns = 3; columns <= 8; columns++) {
    for (int i = 0; i < ROWS; i++) {
      float angle = (float)i * 0.0075f, far = 20 + 8 * sinf(5 * angle);
      float row[8] = {far * cosf(angle), far * sinf(angle), -1.7f, uniform(0, 1),
                      (float)(i % 32),   (float)i * 1e-4f,  5.0f,  -40};
      memcpy(body + (size_t)i * (size_t)columns, row, (size_t)columns * sizeof *row);
    }
    for (int said = 3; said <= 8; said++)
      assert_int_equal(columns_of(said, (int64_t)ROWS * columns), said % columns == 0 ? 0 : columns);
  }
}

// Rows of 5 columns. The second body lacks the last 4 values, so its last row is not whole.
static void only_whole_rows_are_recognized(void **state) {
  (void)state;
  for (int i = 0; i < ROWS * 5; i++) body[i] = (float)(i % 5 * 10) + uniform(0, 1);
  assert_int_equal(columns_of(4, ROWS * 5), 5);
  assert_int_equal(columns_of(4, ROWS * 5 - 4), 0);
}

static void random_rows_get_no_warning(void **state) {
  (void)state;
  for (int round = 0; round < 2000; round++) {
    int columns = 3 + (int)(bits() % 10);
    float width[MOST], middle[MOST];
    for (int c = 0; c < columns; c++) {
      width[c] = powf(10, uniform(-3, 3));
      middle[c] = round % 2 ? uniform(-100, 100) : 0;
    }
    for (int i = 0; i < ROWS * columns; i++)
      body[i] = middle[i % columns] + uniform(-width[i % columns], width[i % columns]);
    assert_int_equal(columns_of(columns, ROWS * columns), 0);
  }
}

// A sensor may write gaps as NaN, infinity or 1e30. Here they are spread over the first 3 of each 10 rows.
static void numbers_that_are_not_finite_get_no_warning(void **state) {
  (void)state;
  static const float values[] = {NAN, INFINITY, -INFINITY, 1e30f};
  for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
    for (int i = 0; i < ROWS * 4; i++) body[i] = i / 4 % 10 < 3 && i % 5 == 0 ? values[v] : uniform(-10, 10);
    assert_int_equal(columns_of(4, ROWS * 4), 0);
  }
}

static void bodies_without_any_order_get_no_warning(void **state) {
  (void)state;
  static const float constants[] = {0, 1, -1e30f, INFINITY, NAN};
  for (size_t c = 0; c < sizeof constants / sizeof *constants; c++) {
    for (int i = 0; i < VALUES; i++) body[i] = constants[c];
    for (int said = 3; said <= 8; said++) assert_int_equal(columns_of(said, VALUES), 0);
  }
  for (int i = 0; i < VALUES; i++) body[i] = (float)i;
  for (int said = 3; said <= 8; said++) assert_int_equal(columns_of(said, VALUES), 0);
  for (int i = 0; i < VALUES; i++) memcpy(&body[i], (uint32_t[]){bits()}, 4);  // any bits
  for (int said = 3; said <= 8; said++) assert_int_equal(columns_of(said, VALUES), 0);
}

static void short_bodies_get_no_warning(void **state) {
  (void)state;
  for (int i = 0; i < VALUES; i++) body[i] = (float)(i % 5 * 10);
  for (int values = 0; values < 832; values += 20) assert_int_equal(columns_of(4, values), 0);
  assert_int_equal(columns_of(4, 840), 5);
}

// The last of the widest windows (64 columns) ends at the body's end.
static void the_widest_rows_are_read_within_the_body(void **state) {
  (void)state;
  int64_t values = 64 * 20;  // 8 windows of 96 + 64 values
  float *own = malloc((size_t)values * sizeof *own);
  assert_non_null(own);
  for (int64_t i = 0; i < values; i++) own[i] = (float)(i % 5 * 10);
  struct vx_input points = vx_points_of(VX_FLOAT32, 20, 64, own);
  assert_int_equal(inspect(&points, false).columns, 5);
  free(own);
}

// ---- stripped bytes -------------------------------------------------------------------------------------------------

static bool stripped(size_t bytes, bool form) {
  struct vx_input points = vx_points_of(VX_FLOAT32, (int64_t)bytes / 16, 4, body);
  return inspect(&points, form).stripped;
}

static void a_form_without_certain_bytes_looks_stripped(void **state) {
  (void)state;
  static const char missed[] = {'\0', '\r', '\n'};
  memset(body, '#', sizeof body);
  assert_true(stripped(2048, true));
  assert_true(stripped(sizeof body, true));
  assert_false(stripped(2048, false));
  assert_false(stripped(2032, true));
  assert_false(stripped(0, true));
  for (size_t i = 0; i < sizeof missed; i++) {
    ((char *)body)[1000] = missed[i];
    assert_false(stripped(2048, true));
  }
}

// ---- files ----------------------------------------------------------------------------------------------------------

// A row of padding has x = y = 0. Here its z has each possible lowest byte.
static void rows_at_the_origin_are_not_taken_for_a_file(void **state) {
  (void)state;
  for (uint32_t low = 0; low < 256; low++) {
    const uint32_t rows[] = {0, 0, 0x3F800000 + low, 0};
    struct vx_input points = vx_points_of(VX_FLOAT32, 1, 4, rows);
    assert_null(inspect(&points, false).hint);
  }
}

// Rows of float64, some of them exact in float32.
static void rows_of_float64_are_named(void **state) {
  (void)state;
  for (int kind = 0; kind < 4; kind++) {
    double rows[300][4];
    float narrow[300][8];
    for (int i = 0; i < 300; i++)
      for (int c = 0; c < 4; c++) {
        double value = (c == 3 ? 0.5 : 40.1) * sin(i * 0.37 + c * 1.3);
        rows[i][c] = kind % 2 ? value : (double)(float)value;
        if (kind >= 2 && c == 3) rows[i][c] = 0;
        // float32 that must not be taken for float64, such as a rotated plane near x = 0
        narrow[i][c] = (float)(c % 2 ? 2 + value / 41 : kind % 2 ? value : 1e-17 * value);
        narrow[i][c + 4] = narrow[i][c];
      }
    struct vx_input points = vx_points_of(VX_FLOAT32, 600, 4, rows);
    const char *hint = inspect(&points, false).hint;
    assert_true(hint && strstr(hint, "float64"));
    points = vx_points_of(VX_FLOAT32, 30, 4, rows);  // too few to tell
    assert_null(inspect(&points, false).hint);
    for (int columns = 3; columns <= 8; columns++) {
      points = vx_points_of(VX_FLOAT32, 300, columns, narrow);
      assert_null(inspect(&points, false).hint);
    }
  }
  for (int i = 0; i < VALUES; i++) memcpy(&body[i], (uint32_t[]){bits()}, 4);  // any bits
  struct vx_input points = vx_points_of(VX_FLOAT32, VALUES / 4, 4, body);
  assert_null(inspect(&points, false).hint);
  points = vx_points_of(VX_FLOAT16, VALUES / 4, 4, body);
  assert_null(inspect(&points, false).hint);
}

static const char *hint_of(const char *text) { return format_hint(FORMAT_RAW, text, strlen(text)); }

static void short_texts_are_recognized_by_their_numbers(void **state) {
  (void)state;
  assert_non_null(hint_of("1.5 2.5 0.5\n"));
  assert_non_null(strstr(hint_of("[[1, 2, 3, 4]]"), "JSON"));
  assert_null(hint_of("1.5 2.5 0.5"));     // not a whole number of rows of three columns
  assert_null(hint_of("a text of ABCD"));  // the bytes may be rows
  assert_null(format_hint(FORMAT_PCD, "1.5 2.5 0.5\n", 12));
}

// The warnings after two steps, of 100 points: `strange` are not finite, and the steps drop `first` and `second`.
static uint32_t warnings_behind_steps(int64_t strange, int64_t first, int64_t second) {
  const struct vx_chain chain = {.count = 2};  // two steps of type 0, which may give these fates
  struct vx_chain_report report = {.left = 100 - strange - first - second};
  const struct inspection inspected = {.columns = 0};
  struct vx_job job = {.counts = {.received = 100, .kept = report.left}, .chain = &chain, .report = &report};
  report.fates[1][VX_FATE_NOT_FINITE] = strange;
  report.fates[1][VX_FATE_OUT_OF_CROP] = first;
  report.fates[2][VX_FATE_CUT_OUT] = second;
  return warnings_of(&job, &inspected);
}

static void a_step_that_drops_nearly_all_gets_a_warning(void **state) {
  (void)state;
  const uint32_t empty = 1u << WARNING_STEP_EMPTY;
  assert_int_equal(warnings_behind_steps(0, 0, 0), 0);
  assert_int_equal(warnings_behind_steps(0, 95, 0), 0);
  assert_int_equal(warnings_behind_steps(0, 96, 0), empty);
  assert_int_equal(warnings_behind_steps(60, 40, 0), empty);
  assert_int_equal(warnings_behind_steps(60, 38, 0), 0);
  assert_int_equal(warnings_behind_steps(0, 50, 48), empty);
  assert_int_equal(warnings_behind_steps(100, 0, 0), 0);  // the warning of points that are not finite says more
}

// ---- kinds ----------------------------------------------------------------------------------------------------------

static void each_kind_holds_when_it_should(void **state) {
  (void)state;
  static const struct {
    struct vx_counts counts;
    struct inspection inspected;
    uint32_t warnings;  // bits
  } cases[] = {
      {{.received = 0}, {.columns = 0}, 1u << WARNING_EMPTY},
      {{.received = 100, .kept = 100}, {.columns = 0}, 0},
      {{.received = 100, .over_max_voxels = 1, .voxels_dropped = 1}, {.columns = 0}, 1u << WARNING_MAX_VOXELS},
      {{.received = 100, .out_of_range = 94}, {.columns = 0}, 0},
      {{.received = 100, .out_of_range = 95}, {.columns = 0}, 1u << WARNING_OUT_OF_RANGE},
      {{.received = 100, .not_finite = 94}, {.columns = 0}, 0},
      {{.received = 100, .not_finite = 95}, {.columns = 0}, 1u << WARNING_NOT_FINITE},
      // The warning holds if all finite points are out of range, but not if no point is finite.
      {{.received = 100, .not_finite = 60, .out_of_range = 40}, {.columns = 0}, 1u << WARNING_OUT_OF_RANGE},
      {{.received = 100, .not_finite = 100}, {.columns = 0}, 1u << WARNING_NOT_FINITE},
      {{.received = 1, .out_of_range = 1}, {.columns = 0}, 1u << WARNING_OUT_OF_RANGE},
      {{.received = INT64_C(2000000000), .out_of_range = INT64_C(1899999999)}, {.columns = 0}, 0},
      {{.received = 100, .kept = 100}, {.stripped = true}, 1u << WARNING_STRIPPED_BODY},
      {{.received = 100, .kept = 100}, {.columns = 5}, 1u << WARNING_NUM_FEATURES},
      {{.received = 100, .kept = 100}, {.hint = "a hint"}, 1u << WARNING_FORMAT},
      {{.received = 100, .kept = 99}, {.columns = 0}, 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct vx_job job = {.counts = cases[i].counts};
    uint32_t warnings = warnings_of(&job, &cases[i].inspected);
    if (warnings != cases[i].warnings) fail_msg("case %zu: %x, not %x", i, warnings, cases[i].warnings);
  }
}

// The text of the warnings about 100 points.
static const char *said_of(enum vx_op op, struct vx_counts counts, struct vx_range_image image) {
  static char memory[512];
  const struct inspection inspected = {.columns = 0};
  struct vx_job job = {.op = op, .counts = counts, .params.image = image};
  struct text text = text_over(memory, sizeof memory);
  job.counts.received = 100;
  warnings_write(&job, &inspected, &text);
  assert_true(text_complete(&text));
  return memory;
}

static void points_without_a_place_get_a_warning(void **state) {
  (void)state;
  const struct vx_range_image by_elevation = {.rows = VX_ROWS_ELEVATION}, by_ring = {.rows = VX_ROWS_RING};
  const struct vx_counts few = {.outside_image = 5}, some = {.outside_image = 6}, most = {.outside_image = 95};
  assert_string_equal(said_of(VX_RANGE_IMAGE_OP, some, by_elevation), "[]");
  assert_string_equal(said_of(VX_RANGE_IMAGE_OP, few, by_ring), "[]");
  assert_non_null(strstr(said_of(VX_RANGE_IMAGE_OP, some, by_ring), "6 of 100 points are outside of the image; check"));
  assert_non_null(strstr(said_of(VX_RANGE_IMAGE_OP, most, by_elevation), "95 of 100 points are outside of the image"));
  assert_string_equal(said_of(VX_SERIALIZE, (struct vx_counts){.out_of_lattice = 94}, by_elevation), "[]");
  assert_non_null(strstr(said_of(VX_SERIALIZE, (struct vx_counts){.out_of_lattice = 95}, by_elevation),
                         "95 of 100 points are out of the lattice; check voxel_size and grid_origin"));
}

static void points_that_a_step_drops_are_not_dropped_by_the_operation(void **state) {
  (void)state;
  const struct vx_chain chain = {.count = 1};
  struct vx_chain_report report = {.left = 4};
  const struct inspection inspected = {.columns = 0};
  struct vx_job job = {.op = VX_SERIALIZE,
                       .counts = {.received = 100, .kept = 1, .out_of_lattice = 99},
                       .chain = &chain,
                       .report = &report};
  report.fates[1][VX_FATE_OUT_OF_LATTICE] = 96;
  assert_false(warnings_of(&job, &inspected) >> WARNING_OUT_OF_RANGE & 1);  // the operation dropped 3 of 4
  report.fates[1][VX_FATE_OUT_OF_LATTICE] = 0;
  assert_true(warnings_of(&job, &inspected) >> WARNING_OUT_OF_RANGE & 1);
}

static void rows_that_are_not_scattered_get_a_warning(void **state) {
  (void)state;
  const struct inspection inspected = {.columns = 0};
  struct vx_job job = {.op = VX_SCATTER, .counts = {.received = 100, .kept = 100}};
  assert_false(warnings_of(&job, &inspected) >> WARNING_NOT_SCATTERED & 1);
  job.counts = (struct vx_counts){.received = 100, .kept = 3, .out_of_range = 97};
  assert_true(warnings_of(&job, &inspected) >> WARNING_NOT_SCATTERED & 1);
  assert_false(warnings_of(&job, &inspected) >> WARNING_OUT_OF_RANGE & 1);  // this warning is only about points
  job.counts = (struct vx_counts){.received = 100, .kept = 99, .duplicate = 1};
  assert_true(warnings_of(&job, &inspected) >> WARNING_NOT_SCATTERED & 1);
}

static void rounding_says_how_far(void **state) {
  (void)state;
  struct cloud_loss loss = {.most = 0.005, .at = 100000};
  struct inspection inspected = {.loss = &loss};
  struct vx_job job = {.counts = {.received = 100, .kept = 100}};
  char memory[512];
  struct text text = text_over(memory, sizeof memory);
  assert_false(warnings_of(&job, &inspected) >> WARNING_ROUNDED & 1);
  loss = (struct cloud_loss){.most = 0.11, .at = -4320978.61};
  assert_true(warnings_of(&job, &inspected) >> WARNING_ROUNDED & 1);
  warnings_write(&job, &inspected, &text);
  assert_string_equal(memory,
                      "[{\"kind\":\"rounded\",\"detail\":\"float32 has steps of 0.5 m near -4320978.61, so rounding "
                      "moved a coordinate by 0.11 m; subtract an origin near the points before sending them\"}]");
}

static void fewer_sweeps_say_why(void **state) {
  (void)state;
  struct join_report joined = {.count = 3, .wanted = 3};
  struct inspection inspected = {.joined = &joined};
  struct vx_job job = {.counts = {.received = 100, .kept = 100}};
  char memory[512];
  struct text text = text_over(memory, sizeof memory);
  assert_false(warnings_of(&job, &inspected) >> WARNING_FEWER_SWEEPS & 1);
  joined = (struct join_report){.count = 1, .wanted = 10, .evicted = 2, .expired = 4, .begun = true};
  joined.sweeps[0].sent = true;
  joined.sweeps[0].points.received = 100;
  assert_true(warnings_of(&job, &inspected) >> WARNING_FEWER_SWEEPS & 1);
  warnings_write(&job, &inspected, &text);
  assert_string_equal(
      memory,
      "[{\"kind\":\"fewer_sweeps\",\"detail\":\"1 of the 10 requested sweeps were joined; 2 were evicted to make "
      "room; 4 were older than stream_ttl_s; the stream begins with this request: the server has no earlier "
      "sweeps\"}]");
}

static void a_clock_that_is_ahead_is_reported(void **state) {
  (void)state;
  struct inspection inspected = {.ahead_ms = 100};
  const struct vx_job job = {.counts = {.received = 100, .kept = 100}};
  char memory[512];
  struct text text = text_over(memory, sizeof memory);
  assert_false(warnings_of(&job, &inspected) >> WARNING_CLOCK_AHEAD & 1);
  inspected.ahead_ms = 150;
  warnings_write(&job, &inspected, &text);
  assert_string_equal(memory, "[{\"kind\":\"clock_ahead\",\"detail\":\"the time of the points is 150 ms ahead of the "
                              "server's clock, so max_age_ms took their age as 0\"}]");
}

static void an_empty_sweep_is_told_though_points_were_joined(void **state) {
  (void)state;
  struct join_report joined = {.count = 2, .wanted = 2};
  const struct inspection inspected = {.joined = &joined};
  const struct vx_job job = {.counts = {.received = 100, .kept = 100}};
  joined.sweeps[0].sent = true;
  joined.sweeps[1].points.received = 100;
  assert_true(warnings_of(&job, &inspected) >> WARNING_EMPTY & 1);
  joined.sweeps[0].points.received = 1;
  assert_false(warnings_of(&job, &inspected) >> WARNING_EMPTY & 1);
}

static void other_columns_than_the_model_expects_are_reported(void **state) {
  (void)state;
  struct points_expected expected = {0};
  const struct inspection inspected = {.seen = {.expected = &expected}}, unseen = {0};
  struct vx_job job = {.counts = {.received = 100, .kept = 100}};
  char memory[512];
  struct text text = text_over(memory, sizeof memory);
  job.inputs[VX_POINTS] = vx_points_of(VX_FLOAT32, 100, 3, body);
  assert_false(warnings_of(&job, &inspected) >> WARNING_OTHER_COLUMNS & 1);
  assert_false(warnings_of(&job, &unseen) >> WARNING_OTHER_COLUMNS & 1);
  expected = (struct points_expected){.num_columns = 4, .columns = "x,y,z,intensity"};
  assert_true(warnings_of(&job, &inspected) >> WARNING_OTHER_COLUMNS & 1);
  warnings_write(&job, &inspected, &text);
  assert_string_equal(memory, "[{\"kind\":\"other_columns\",\"detail\":\"the rows have 3 columns, but the model "
                              "expects 4: x,y,z,intensity; send these columns, or take another preset\"}]");
  job.inputs[VX_POINTS].dims[1] = 4;
  assert_false(warnings_of(&job, &inspected) >> WARNING_OTHER_COLUMNS & 1);
}

static void all_are_written_as_one_json_array(void **state) {
  (void)state;
  struct vx_job job = {.counts = {.received = 1, .voxels_dropped = 2, .over_max_voxels = 3, .out_of_range = 1}};
  struct inspection inspected = {.stripped = true, .columns = 5};
  job.inputs[VX_POINTS] = vx_points_of(VX_FLOAT32, 1, 4, body);
  job.params.voxelize.max_voxels = 7;
  char memory[2048];
  struct text text = text_over(memory, sizeof memory);
  warnings_write(&job, &inspected, &text);
  assert_true(text_complete(&text));
  json_t *warnings = json_loads(memory, JSON_REJECT_DUPLICATES, NULL);
  assert_int_equal(json_array_size(warnings), 4);
  assert_string_equal(json_string_value(json_object_get(json_array_get(warnings, 0), "kind")), "max_voxels");
  assert_string_equal(
      json_string_value(json_object_get(json_array_get(warnings, 0), "detail")),
      "max_voxels=7 was reached: 2 voxels and their 3 points were dropped; max_voxels_by=near keeps the nearest "
      "voxels instead of the first");
  assert_string_equal(json_string_value(json_object_get(json_array_get(warnings, 2), "detail")),
                      "the rows look like 5 columns, but num_features is 4");
  json_decref(warnings);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(columns_of_a_scan_are_recognized),
      cmocka_unit_test(only_whole_rows_are_recognized),
      cmocka_unit_test(random_rows_get_no_warning),
      cmocka_unit_test(numbers_that_are_not_finite_get_no_warning),
      cmocka_unit_test(bodies_without_any_order_get_no_warning),
      cmocka_unit_test(short_bodies_get_no_warning),
      cmocka_unit_test(the_widest_rows_are_read_within_the_body),
      cmocka_unit_test(a_form_without_certain_bytes_looks_stripped),
      cmocka_unit_test(rows_at_the_origin_are_not_taken_for_a_file),
      cmocka_unit_test(rows_of_float64_are_named),
      cmocka_unit_test(short_texts_are_recognized_by_their_numbers),
      cmocka_unit_test(each_kind_holds_when_it_should),
      cmocka_unit_test(a_step_that_drops_nearly_all_gets_a_warning),
      cmocka_unit_test(points_without_a_place_get_a_warning),
      cmocka_unit_test(points_that_a_step_drops_are_not_dropped_by_the_operation),
      cmocka_unit_test(rows_that_are_not_scattered_get_a_warning),
      cmocka_unit_test(rounding_says_how_far),
      cmocka_unit_test(fewer_sweeps_say_why),
      cmocka_unit_test(a_clock_that_is_ahead_is_reported),
      cmocka_unit_test(other_columns_than_the_model_expects_are_reported),
      cmocka_unit_test(an_empty_sweep_is_told_though_points_were_joined),
      cmocka_unit_test(all_are_written_as_one_json_array),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
