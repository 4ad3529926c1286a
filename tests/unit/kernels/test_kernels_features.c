// The feature tensors.
#include "tests/unit/kernels/kernels_reference.h"

static void fill_zero(void **state) {
  (void)state;
  struct vx_job asked = plain_params(10);
  const float points[][4] = {{1, 1, 1, 2}, {1.5f, 1.5f, 1.5f, 4}};
  const float voxel[4][4] = {{1, 1, 1, 2}, {1.5f, 1.5f, 1.5f, 4}, {0, 0, 0, 0}, {0, 0, 0, 0}};
  struct outcome outcome = check_scan(&asked, points, 2);
  assert_memory_equal(tensor(&outcome, VX_VOXELS), voxel, sizeof voxel);
  free(outcome.block);
}

// fill=mean pads each column of `voxels` with the voxel's mean, and changes no other tensor.
static void fill_mean(void **state) {
  (void)state;
  struct vx_job asked = plain_params(10);
  asked.params.voxelize.fill = VX_FILL_MEAN;
  const float points[][4] = {{1, 1, 1, 2}, {1.5f, 1.5f, 1.5f, 4}};
  const float voxel[4][4] = {{1, 1, 1, 2}, {1.5f, 1.5f, 1.5f, 4}, {1.25f, 1.25f, 1.25f, 3}, {1.25f, 1.25f, 1.25f, 3}};
  struct outcome outcome = check_scan(&asked, points, 2);
  assert_memory_equal(tensor(&outcome, VX_VOXELS), voxel, sizeof voxel);
  const float *padding = (const float *)tensor(&outcome, VX_PILLAR_FEATURES) + 2 * 10;
  for (int i = 0; i < 2 * 10; i++) assert_int_equal(bits_of(padding[i]), 0);
  free(outcome.block);
}

static void pillar(void **state) {
  (void)state;
  struct vx_job asked = plain_params(4);
  asked.params.voxelize.voxel_size[2] = 4;
  asked.params.voxelize.max_points_per_voxel = 2;
  const float points[][4] = {{1.25f, 2.5f, 1, 9}, {1.75f, 2.5f, 3, 8}};
  const float pillar[2][10] = {{1.25f, 2.5f, 1, 9, -0.25f, 0, -1, -0.25f, 0, -1},
                               {1.75f, 2.5f, 3, 8, 0.25f, 0, 1, 0.25f, 0, 1}};
  struct outcome outcome = check_scan(&asked, points, 2);
  assert_memory_equal(tensor(&outcome, VX_PILLAR_FEATURES), pillar, sizeof pillar);
  free(outcome.block);
}

// A sum begins with its first point, not with 0.
static void mean_of_negative_zero(void **state) {
  (void)state;
  struct vx_job asked = plain_params(4);
  const float points[][4] = {{1, 1, 1, -0.0f}, {1, 1, 1, -0.0f}, {2, 2, 2, -0.0f}};
  struct outcome outcome = check_scan(&asked, points, 3);
  const float *features = tensor(&outcome, VX_VOXEL_FEATURES);
  assert_int_equal(bits_of(features[3]), 0x80000000);
  assert_int_equal(bits_of(features[7]), 0x80000000);
  free(outcome.block);
}

// float32 addition in input order: small terms after a large term are lost.
static void mean_keeps_the_order(void **state) {
  (void)state;
  struct vx_job asked = plain_params(4);
  const float points[][4] = {{1, 1, 1, 16777216}, {1, 1, 1, 1}, {1, 1, 1, 1},
                             {2, 2, 2, 1},        {2, 2, 2, 1}, {2, 2, 2, 16777216}};
  struct outcome outcome = check_scan(&asked, points, 6);
  const float *features = tensor(&outcome, VX_VOXEL_FEATURES);
  assert_true(features[3] == 16777216.0f / 3.0f);
  assert_true(features[7] == 16777218.0f / 3.0f);
  free(outcome.block);
}

// A computed NaN always has the same bits. A copied NaN keeps its bits.
static void nan_payloads(void **state) {
  (void)state;
  struct vx_job asked = plain_params(4);
  float points[3][4] = {{1, 1, 1, 0}, {1, 1, 1, 5}, {2, 2, 2, 0}};
  points[0][3] = float_of(0xFFC54321);
  points[2][3] = float_of(0x7F812345);  // a signalling NaN
  struct outcome outcome = check_scan(&asked, points, 3);
  const uint32_t *features = tensor(&outcome, VX_VOXEL_FEATURES), *voxels = tensor(&outcome, VX_VOXELS);
  assert_int_equal(features[3], 0x7FC00000);
  assert_int_equal(features[7], 0x7FC00000);
  assert_int_equal(voxels[3], 0xFFC54321);
  assert_int_equal(voxels[4 * 4 + 3], 0x7F812345);
  free(outcome.block);
  asked.params.voxelize.feature_dtype = VX_FLOAT16;
  outcome = check_scan(&asked, points, 3);
  assert_int_equal(((const uint16_t *)tensor(&outcome, VX_VOXEL_FEATURES))[3], 0x7E00);
  assert_int_equal(((const uint16_t *)tensor(&outcome, VX_PILLAR_FEATURES))[3], 0x7E00);
  free(outcome.block);
}

// A sum of finite coordinates can overflow. A sum of opposite infinities is the computed NaN.
static void overflowing_sums(void **state) {
  (void)state;
  struct vx_job asked = {.params.voxelize = {.range_max = {3e38f, 1, 1},
                                             .voxel_size = {3e38f, 1, 1},
                                             .max_points_per_voxel = 8,
                                             .max_voxels = 9},
                         .inputs = {vx_points_of(VX_FLOAT32, 0, 4, NULL)},
                         .tensors = ALL_TENSORS};
  const float points[][4] = {{2e38f, 0, 0, INFINITY}, {2e38f, 0, 0, -INFINITY}, {2e38f, 0, 0, -3e38f}};
  for (int half = 0; half < 2; half++) {
    asked.params.voxelize.feature_dtype = half ? VX_FLOAT16 : VX_FLOAT32;
    free(check_scan(&asked, points, 3).block);
  }
}

// Without a cap: groups of 64 points, groups of 64 groups, and so on.
static void dynamic_mean_tree(void **state) {
  (void)state;
  enum { MOST = 10000 };
  static float points[MOST][4];
  const int32_t lengths[] = {1, 63, 64, 65, 127, 128, 129, 4095, 4096, 4097, 4160, 8193, MOST};
  struct vx_job asked = plain_params(4);
  asked.params.voxelize.max_points_per_voxel = 0;
  asked.tensors = UNCAPPED_TENSORS;
  struct random random = {9};
  for (int i = 0; i < MOST; i++) {
    points[i][0] = points[i][1] = points[i][2] = random_in(&random, 1, 2);
    points[i][3] = random_in(&random, -1000, 1000) * random_in(&random, 0, 1000);
  }
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
    struct outcome outcome = check_scan(&asked, points, lengths[i]);
    assert_int_equal(outcome.counts.voxels_kept, 1);
    assert_int_equal(outcome.counts.kept, lengths[i]);
    free(outcome.block);
  }
}

// More than 64^3 points: groups of groups of groups. float32 holds every partial sum.
static void dynamic_mean_of_a_million(void **state) {
  (void)state;
  enum { COUNT = 1 << 20 };
  float(*points)[3] = malloc(COUNT * sizeof *points);
  for (int i = 0; i < COUNT; i++) points[i][0] = points[i][1] = points[i][2] = i % 2 ? 1.0f : 3.0f;
  struct vx_job asked = plain_params(4);
  asked.params.voxelize.voxel_size[0] = asked.params.voxelize.voxel_size[1] = asked.params.voxelize.voxel_size[2] = 4;
  asked.inputs[VX_POINTS].dims[1] = 3;
  asked.params.voxelize.max_points_per_voxel = 0;
  asked.tensors = UNCAPPED_TENSORS;
  struct outcome outcome = run_scan(&asked, points, COUNT);
  assert_int_equal(outcome.status, VX_OK);
  assert_true(((const float *)tensor(&outcome, VX_VOXEL_FEATURES))[0] == 2.0f);
  free(outcome.block);
  free(points);
}

static void capped_mean_is_sequential(void **state) {
  (void)state;
  enum { COUNT = 1500 };
  static float points[COUNT][4];
  struct vx_job asked = plain_params(4);
  asked.params.voxelize.max_points_per_voxel = VX_MAX_POINTS_PER_VOXEL;
  asked.tensors = UNCAPPED_TENSORS;
  struct random random = {10};
  for (int i = 0; i < COUNT; i++) {
    points[i][0] = points[i][1] = points[i][2] = 1;
    points[i][3] = random_in(&random, -1000, 1000);
  }
  free(check_scan(&asked, points, COUNT).block);
}

static void float16_output(void **state) {
  (void)state;
  enum { COUNT = 2000 };
  static float points[COUNT][6];
  struct vx_job asked = plain_params(6);
  asked.inputs[VX_POINTS].dims[1] = 6;
  asked.params.voxelize.feature_dtype = VX_FLOAT16;
  struct random random = {11};
  for (int i = 0; i < COUNT; i++)
    for (int c = 0; c < 6; c++) points[i][c] = random_in(&random, 0, 6) * (c == 4 ? 20000 : c == 5 ? 1e-6f : 1);
  free(check_scan(&asked, points, COUNT).block);
}

static void most_columns(void **state) {
  (void)state;
  enum { COUNT = 100 };
  static float points[COUNT][VX_MAX_FEATURES];
  struct vx_job asked = plain_params(3);
  asked.inputs[VX_POINTS].dims[1] = VX_MAX_FEATURES;
  asked.params.voxelize.fill = VX_FILL_MEAN;
  struct random random = {12};
  for (int i = 0; i < COUNT; i++)
    for (int c = 0; c < VX_MAX_FEATURES; c++) points[i][c] = random_in(&random, 0, 3);
  free(check_scan(&asked, points, COUNT).block);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(fill_zero),
      cmocka_unit_test(fill_mean),
      cmocka_unit_test(pillar),
      cmocka_unit_test(mean_of_negative_zero),
      cmocka_unit_test(mean_keeps_the_order),
      cmocka_unit_test(nan_payloads),
      cmocka_unit_test(overflowing_sums),
      cmocka_unit_test(dynamic_mean_tree),
      cmocka_unit_test(dynamic_mean_of_a_million),
      cmocka_unit_test(capped_mean_is_sequential),
      cmocka_unit_test(float16_output),
      cmocka_unit_test(most_columns),
  };
  return cmocka_run_group_tests(tests, open_backend, close_backend);
}
