// The cells of points, and points outside all cells.
#include "tests/unit/kernels/kernels_reference.h"

// Points at the last float below each upper bound. In some ranges (x - min) / size rounds up to the number of cells:
// the point is out of range, although x < max.
static void upper_bound(void **state) {
  (void)state;
  const struct {
    float min, max, size;
    bool aliases;
  } ranges[] = {
      {-54, 54, 0.2f, true},        {-5, 3, 0.2f, true},       {-39.68f, 39.68f, 0.16f, true},
      {-40, 40, 0.05f, true},       {-52, 52, 0.1f, true},     {-54, 54, 0.075f, true},
      {-3, 1, 0.1f, true},          {0, 69.12f, 0.16f, false}, {0, 70.4f, 0.05f, false},
      {-75.2f, 75.2f, 0.1f, false},
  };
  for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
    for (int axis = 0; axis < 3; axis++) {
      struct vx_job asked = plain_params(100);
      asked.params.voxelize.range_min[axis] = ranges[i].min;
      asked.params.voxelize.range_max[axis] = ranges[i].max;
      asked.params.voxelize.voxel_size[axis] = ranges[i].size;
      float points[4][4] = {{1, 1, 1, 0}, {1, 1, 1, 0}, {1, 1, 1, 0}, {1, 1, 1, 0}};
      points[0][axis] = nextafterf(ranges[i].max, -INFINITY);
      points[1][axis] = ranges[i].max;
      points[2][axis] = ranges[i].min;
      points[3][axis] = nextafterf(ranges[i].min, -INFINITY);
      struct outcome outcome = check_scan(&asked, points, 4);
      const int32_t *ids = tensor(&outcome, VX_POINT_VOXEL_IDS);
      assert_int_equal(ids[0] == -1, ranges[i].aliases);
      assert_true(ids[1] == -1 || !ranges[i].aliases);
      assert_int_not_equal(ids[2], -1);
      assert_int_equal(ids[3], -1);
      free(outcome.block);
    }
  }
}

// The number of cells is rounded. Points are in range up to the end of the last cell.
static void the_end_of_the_grid_is_the_bound(void **state) {
  (void)state;
  struct vx_job asked = plain_params(10);
  asked.params.voxelize.range_max[0] = 9.6f;  // 10 cells
  asked.params.voxelize.range_max[1] = 9.4f;  // 9 cells
  const float points[][4] = {{9.9f, 0, 0, 0}, {10, 0, 0, 0}, {0, 8.9f, 0, 0}, {0, 9.2f, 0, 0}};
  struct outcome outcome = check_scan(&asked, points, 4);
  assert_int_equal(outcome.counts.kept, 2);
  assert_int_equal(outcome.counts.out_of_range, 2);
  free(outcome.block);
}

static void nan_points(void **state) {
  (void)state;
  struct vx_job asked = plain_params(10);
  const float points[][4] = {{NAN, 1, 1, 0}, {1, NAN, 1, 0}, {1, 1, NAN, 0}, {1, 1, -NAN, 0}, {1, 1, 1, 0}};
  struct outcome outcome = check_scan(&asked, points, 5);
  assert_int_equal(outcome.counts.not_finite, 4);
  assert_int_equal(outcome.counts.kept, 1);
  free(outcome.block);
}

static void nan_features_pass(void **state) {
  (void)state;
  struct vx_job asked = plain_params(10);
  const float points[][4] = {{1, 1, 1, NAN}, {2, 2, 2, INFINITY}, {2, 2, 2, -INFINITY}};
  struct outcome outcome = check_scan(&asked, points, 3);
  assert_int_equal(outcome.counts.kept, 3);
  free(outcome.block);
}

static void infinite_points(void **state) {
  (void)state;
  struct vx_job asked = plain_params(10);
  const float points[][4] = {{INFINITY, 1, 1, 0}, {1, -INFINITY, 1, 0}, {1, 99, INFINITY, 0}, {99, 1, 1, 0}};
  struct outcome outcome = check_scan(&asked, points, 4);
  assert_int_equal(outcome.counts.not_finite, 3);
  assert_int_equal(outcome.counts.out_of_range, 1);
  free(outcome.block);
}

// Coordinates near the limits of int32 and uint32, up to nearly the largest float.
static void far_points(void **state) {
  (void)state;
  struct vx_job asked = plain_params(10);
  asked.params.voxelize.range_min[0] = -2;
  const float points[][4] = {{1e30f, 1, 1, 0},          {-1e30f, 1, 1, 0},        {1, 3.4e38f, 1, 0},
                             {1, 1, -3.4e38f, 0},       {2147483648.0f, 1, 1, 0}, {4294967296.0f, 1, 1, 0},
                             {1, -2147483648.0f, 1, 0}, {1, 1, 4294967297.0f, 0}, {1, 1, 1, 0}};
  struct outcome outcome = check_scan(&asked, points, 9);
  assert_int_equal(outcome.counts.out_of_range, 8);
  assert_int_equal(outcome.counts.not_finite, 0);
  free(outcome.block);
}

static void negative_zero(void **state) {
  (void)state;
  struct vx_job asked = plain_params(10);
  const float points[][4] = {{-0.0f, -0.0f, -0.0f, -0.0f}, {-1e-45f, 0, 0, 0}};
  struct outcome outcome = check_scan(&asked, points, 2);
  assert_int_equal(outcome.counts.kept, 1);
  assert_int_equal(((const uint32_t *)tensor(&outcome, VX_VOXEL_FEATURES))[3], 0x80000000);
  free(outcome.block);
}

// The largest number of cells that is both an int32 and a float.
static void widest_axis(void **state) {
  (void)state;
  struct vx_job asked = plain_params(1);
  asked.params.voxelize.range_max[0] = 2147483520.0f;
  const float points[][4] = {{2147483392.0f, 0, 0, 0}, {2147483520.0f, 0, 0, 0}, {2147483648.0f, 0, 0, 0}};
  struct outcome outcome = check_scan(&asked, points, 3);
  assert_int_equal(outcome.counts.kept, 1);
  assert_int_equal(((const int32_t *)tensor(&outcome, VX_VOXEL_COORDS))[3], 2147483392);
  free(outcome.block);
}

// 6.4e12 cells: their numbers need more than 32 bits.
static void huge_grid(void **state) {
  (void)state;
  enum { COUNT = 3000 };
  static float points[COUNT][4];
  struct vx_job asked = {
      .params.voxelize = {.range_min = {-200, -200, -20},
                          .range_max = {200, 200, 20},
                          .voxel_size = {0.01f, 0.01f, 0.01f},
                          .max_points_per_voxel = 2,
                          .max_voxels = COUNT,
                          .order = VX_ORDER_KEY},
      .inputs = {vx_points_of(VX_FLOAT32, 0, 4, NULL)},
      .tensors = ALL_TENSORS,
  };
  struct random random = {1};
  for (int i = 0; i < COUNT; i++) {
    points[i][0] = random_in(&random, -205, 205);
    points[i][1] = random_in(&random, -205, 205);
    points[i][2] = random_in(&random, -20, 20);
    if (i % 3 == 2) memcpy(points[i], points[i - 2], sizeof points[i]);
  }
  struct outcome outcome = check_scan(&asked, points, COUNT);
  assert_true(outcome.counts.voxels_kept > COUNT / 2);
  free(outcome.block);
}

static void float16_input(void **state) {
  (void)state;
  enum { COUNT = 999 };
  static uint16_t points[COUNT][5];
  struct vx_job asked = plain_params(8);
  asked.inputs[VX_POINTS].dims[1] = 5;
  asked.inputs[VX_POINTS].dtype = VX_FLOAT16;
  struct random random = {2};
  for (int i = 0; i < COUNT; i++)
    for (int c = 0; c < 5; c++) points[i][c] = model_narrow(random_in(&random, -1, 9));
  points[5][0] = 0x7C00;  // infinity
  points[6][1] = 0xFE01;  // NaN
  points[7][4] = 0xFC01;  // a signalling NaN in a feature
  points[8][2] = 0x0001;  // subnormal
  points[9][2] = 0x8000;  // -0
  struct outcome outcome = check_scan(&asked, points, COUNT);
  assert_int_equal(outcome.counts.not_finite, 2);
  free(outcome.block);
}

// Lengths around the size of the chunks in which points are read.
static void every_length(void **state) {
  (void)state;
  enum { MOST = 600 };
  static float points[MOST][3];
  struct vx_job asked = plain_params(6);
  asked.inputs[VX_POINTS].dims[1] = 3;
  struct random random = {3};
  for (int i = 0; i < MOST; i++)
    for (int c = 0; c < 3; c++) points[i][c] = i % 7 == 0 ? NAN : random_in(&random, -1, 7);
  const int32_t lengths[] = {0, 1, 2, 255, 256, 257, 511, 512, 513, 600};
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) free(check_scan(&asked, points, lengths[i]).block);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(upper_bound),     cmocka_unit_test(the_end_of_the_grid_is_the_bound),
      cmocka_unit_test(nan_points),      cmocka_unit_test(nan_features_pass),
      cmocka_unit_test(infinite_points), cmocka_unit_test(far_points),
      cmocka_unit_test(negative_zero),   cmocka_unit_test(widest_axis),
      cmocka_unit_test(huge_grid),       cmocka_unit_test(float16_input),
      cmocka_unit_test(every_length),
  };
  return cmocka_run_group_tests(tests, open_backend, close_backend);
}
