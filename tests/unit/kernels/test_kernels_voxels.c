// Which voxels and points are kept, and in which order.
#include "kernels/cpu/steps/steps.h"
#include "kernels/cylinder.h"
#include "tests/unit/kernels/kernels_reference.h"

static void empty_scan(void **state) {
  (void)state;
  struct vx_job asked = plain_params(10);
  struct outcome outcome = check_scan(&asked, NULL, 0);
  assert_int_equal(outcome.outputs, 1);
  assert_int_equal(outcome.layout.bytes, 0);
  assert_int_equal(outcome.layout.tensors, ALL_TENSORS);
  assert_int_equal(outcome.counts.received, 0);
  free(outcome.block);
}

static void nothing_in_range(void **state) {
  (void)state;
  struct vx_job asked = plain_params(10);
  const float points[][4] = {{-1, 0, 0, 0}, {0, 10, 0, 0}};
  struct outcome outcome = check_scan(&asked, points, 2);
  assert_int_equal(outcome.counts.out_of_range, 2);
  assert_int_equal(outcome.layout.shape[VX_VOXEL_COORDS].dims[0], 0);
  free(outcome.block);
}

static void order_of_first_appearance(void **state) {
  (void)state;
  struct vx_job asked = plain_params(10);
  const float points[][4] = {{5, 1, 2, 0}, {0, 0, 0, 1}, {5.5f, 1.5f, 2.5f, 2}, {9, 9, 9, 3}, {0.5f, 0, 0, 4}};
  struct outcome outcome = check_scan(&asked, points, 5);
  const int32_t coords[3][4] = {{0, 2, 1, 5}, {0, 0, 0, 0}, {0, 9, 9, 9}};
  const int32_t ids[5] = {0, 1, 0, 2, 1};
  assert_int_equal(outcome.row_counts[0], 3);
  assert_memory_equal(tensor(&outcome, VX_VOXEL_COORDS), coords, sizeof coords);
  assert_memory_equal(tensor(&outcome, VX_POINT_VOXEL_IDS), ids, sizeof ids);
  free(outcome.block);
}

// A full voxel keeps its first points. The others still have its number in point_voxel_ids.
static void cap_points(void **state) {
  (void)state;
  struct vx_job asked = plain_params(10);
  asked.params.voxelize.max_points_per_voxel = 2;
  const float points[][4] = {{1, 1, 1, 10}, {1, 1, 1, 20}, {3, 3, 3, 7}, {1, 1, 1, 30}, {1, 1, 1, 40}};
  const int32_t ids[5] = {0, 0, 1, 0, 0};
  struct outcome outcome = check_scan(&asked, points, 5);
  assert_int_equal(outcome.counts.over_voxel_cap, 2);
  assert_int_equal(outcome.counts.kept, 3);
  assert_int_equal(((const int32_t *)tensor(&outcome, VX_VOXEL_NUM_POINTS))[0], 2);
  assert_true(((const float *)tensor(&outcome, VX_VOXEL_FEATURES))[3] == 15.0f);
  assert_memory_equal(tensor(&outcome, VX_POINT_VOXEL_IDS), ids, sizeof ids);
  free(outcome.block);
}

// After max_voxels, each new voxel is counted as dropped once. Points still enter the earlier voxels.
static void cap_voxels(void **state) {
  (void)state;
  struct vx_job asked = plain_params(10);
  asked.params.voxelize.max_voxels = 2;
  const float points[][4] = {{0, 0, 0, 0}, {1, 0, 0, 1}, {2, 0, 0, 2}, {3, 0, 0, 3},
                             {2, 0, 0, 4}, {1, 0, 0, 5}, {0, 0, 0, 6}, {3, 0, 0, 7}};
  const int32_t ids[8] = {0, 1, -1, -1, -1, 1, 0, -1};
  struct outcome outcome = check_scan(&asked, points, 8);
  assert_int_equal(outcome.counts.voxels_kept, 2);
  assert_int_equal(outcome.counts.voxels_dropped, 2);
  assert_int_equal(outcome.counts.over_max_voxels, 4);
  assert_int_equal(outcome.counts.kept, 4);
  assert_memory_equal(tensor(&outcome, VX_POINT_VOXEL_IDS), ids, sizeof ids);
  free(outcome.block);
}

static void expect_voxels(enum vx_voxels_by by, int32_t most, const float (*points)[4], int32_t count,
                          const int32_t *ids) {
  struct vx_job asked = plain_params(10);
  for (int a = 0; a < 2; a++) asked.params.voxelize.range_min[a] = -10;
  asked.params.voxelize.max_voxels = most;
  asked.params.voxelize.choice.voxels_by = by;
  struct outcome outcome = check_scan(&asked, points, count);
  assert_memory_equal(tensor(&outcome, VX_POINT_VOXEL_IDS), ids, (size_t)count * sizeof *ids);
  free(outcome.block);
}

// By the distance of the centre in x and y. Of equally far voxels, the first stay.
static void near_voxels_stay(void **state) {
  (void)state;
  const float points[][4] = {{5, 0, 0, 0}, {1, 0, 9, 0}, {-2, 0, 0, 0}, {1, -1, 0, 0}, {0, 0, 9, 0}, {1, 0, 9, 1}};
  expect_voxels(VX_VOXELS_NEAR, 6, points, 6, (const int32_t[]){0, 1, 2, 3, 4, 1});
  expect_voxels(VX_VOXELS_NEAR, 4, points, 6, (const int32_t[]){-1, 0, 1, 2, 3, 0});
  expect_voxels(VX_VOXELS_NEAR, 3, points, 6, (const int32_t[]){-1, 0, 1, -1, 2, 0});
  expect_voxels(VX_VOXELS_NEAR, 2, points, 6, (const int32_t[]){-1, 0, -1, -1, 1, 0});
  expect_voxels(VX_VOXELS_NEAR, 1, points, 6, (const int32_t[]){-1, -1, -1, -1, 0, -1});
}

// A voxel counts all its points, also those over max_points_per_voxel (4 here).
static void full_voxels_stay(void **state) {
  (void)state;
  const float points[][4] = {{3, 3, 3, 0}, {5, 0, 0, 0}, {7, 7, 7, 0}, {5, 0, 0, 1}, {5, 0, 0, 2}, {5, 0, 0, 3},
                             {7, 7, 7, 1}, {7, 7, 7, 2}, {7, 7, 7, 3}, {7, 7, 7, 4}, {1, 1, 1, 0}};
  expect_voxels(VX_VOXELS_FULL, 1, points, 11, (const int32_t[]){-1, -1, 0, -1, -1, -1, 0, 0, 0, 0, -1});
  expect_voxels(VX_VOXELS_FULL, 2, points, 11, (const int32_t[]){-1, 0, 1, 0, 0, 0, 1, 1, 1, 1, -1});
  expect_voxels(VX_VOXELS_FULL, 3, points, 11, (const int32_t[]){0, 1, 2, 1, 1, 1, 2, 2, 2, 2, -1});
}

// Squared distances that overflow are equal: infinite.
static void infinitely_far_voxels_stay_by_number(void **state) {
  (void)state;
  struct vx_job asked = plain_params(1);
  const float points[][4] = {{2.5e30f, 0, 0, 0}, {3.5e30f, 0, 0, 0}, {0.5e30f, 0, 0, 0}};
  for (int a = 0; a < 3; a++) asked.params.voxelize.voxel_size[a] = asked.params.voxelize.range_max[a] = 1e30f;
  asked.params.voxelize.range_max[0] = 9e30f;
  asked.params.voxelize.max_voxels = 2;
  asked.params.voxelize.choice.voxels_by = VX_VOXELS_NEAR;
  struct outcome outcome = check_scan(&asked, points, 3);
  assert_memory_equal(tensor(&outcome, VX_POINT_VOXEL_IDS), ((const int32_t[]){0, 1, -1}), 3 * sizeof(int32_t));
  free(outcome.block);
}

// The random number of a row comes from the seed and the row's index in the whole batch. That rows 0, 3 and 5 stay was
// computed by another implementation.
static void random_points_stay(void **state) {
  (void)state;
  enum { BEFORE = 7, COUNT = 3000 };
  static const int32_t caps[] = {1, 2, 31, 32, 33, 256, 257, 1024};
  static float points[BEFORE + COUNT][4];
  const int32_t counts[] = {BEFORE, COUNT};
  for (int i = 0; i < BEFORE + COUNT; i++) points[i][3] = (float)i;
  for (int i = 0; i < 8; i++) {
    for (int32_t count = caps[i]; count <= COUNT; count += 1 + count / 2) {
      struct vx_job asked = plain_params(10);
      asked.params.voxelize.max_points_per_voxel = caps[i];
      asked.params.voxelize.choice = (struct vx_choice){.points_by = VX_POINTS_RANDOM, .seed = INT32_MAX - i};
      const int32_t some[] = {BEFORE, count};
      free(check_batch_on(lane, &asked, points, 2, some).block);
    }
  }
  struct vx_job asked = plain_params(10);
  asked.params.voxelize.max_points_per_voxel = 3;
  asked.params.voxelize.choice.points_by = VX_POINTS_RANDOM;
  struct outcome outcome = check_batch_on(lane, &asked, points, 1, counts);
  const float *kept = tensor(&outcome, VX_VOXELS);
  assert_true(kept[3] == 0 && kept[7] == 3 && kept[11] == 5);
  free(outcome.block);
}

// The first max_voxels voxels are kept, then sorted by x, y, z.
static void order_key(void **state) {
  (void)state;
  struct vx_job asked = plain_params(300);
  asked.params.voxelize.order = VX_ORDER_KEY;
  asked.params.voxelize.max_voxels = 4;
  const float points[][4] = {{256, 0, 0, 0}, {1, 2, 0, 0}, {1, 0, 299, 0}, {1, 0, 3, 0}, {0, 0, 0, 0}};
  const int32_t coords[4][4] = {{0, 3, 0, 1}, {0, 299, 0, 1}, {0, 0, 2, 1}, {0, 0, 0, 256}};
  const int32_t ids[5] = {3, 2, 1, 0, -1};
  struct outcome outcome = check_scan(&asked, points, 5);
  assert_memory_equal(tensor(&outcome, VX_VOXEL_COORDS), coords, sizeof coords);
  assert_memory_equal(tensor(&outcome, VX_POINT_VOXEL_IDS), ids, sizeof ids);
  free(outcome.block);
}

static void all_in_one_cell(void **state) {
  (void)state;
  enum { COUNT = 5000 };
  static float points[COUNT][4];
  struct vx_job asked = plain_params(10);
  struct random random = {4};
  for (int i = 0; i < COUNT; i++)
    for (int c = 0; c < 4; c++) points[i][c] = random_in(&random, 3, 4);
  struct outcome outcome = check_scan(&asked, points, COUNT);
  assert_int_equal(outcome.counts.voxels_kept, 1);
  assert_int_equal(outcome.counts.over_voxel_cap, COUNT - 4);
  free(outcome.block);
}

// In a grid small enough for a dense table, and in a larger one.
static void all_in_different_cells(void **state) {
  (void)state;
  enum { SIDE = 16, COUNT = SIDE * SIDE * SIDE };
  static float points[COUNT][4];
  for (int i = 0; i < COUNT; i++) {
    int shuffled = i * 1663 % COUNT;
    points[i][0] = (float)(shuffled % SIDE);
    points[i][1] = (float)(shuffled / SIDE % SIDE);
    points[i][2] = (float)(shuffled / SIDE / SIDE);
  }
  for (int large = 0; large < 2; large++) {
    struct vx_job asked = plain_params(large ? 1000 : SIDE);
    asked.params.voxelize.max_voxels = COUNT;
    struct outcome outcome = check_scan(&asked, points, COUNT);
    assert_int_equal(outcome.counts.voxels_kept, COUNT);
    free(outcome.block);
  }
}

// Runs of points in one cell, about as long as a vector or a chunk. Later runs return to the same cells.
static void runs_in_cells(void **state) {
  (void)state;
  enum { COUNT = 9000, CELLS = 40 };
  static const int lengths[] = {1, 1, 2, 3, 7, 8, 9, 15, 16, 17, 255, 256, 257, 300};
  static float points[COUNT][4];
  struct random random = {9};
  for (int i = 0; i < COUNT;) {
    int cell = (int)(next_random(&random) % (CELLS + 1)) - 1;  // -1: out of range
    int length = lengths[next_random(&random) % (sizeof lengths / sizeof *lengths)];
    for (int end = i + length; i < end && i < COUNT; i++) {
      points[i][0] = (float)cell * 20 + random_in(&random, 0, 1);
      points[i][1] = points[i][2] = 7;
      points[i][3] = random_in(&random, 0, 1);
    }
  }
  for (int large = 0; large < 2; large++) {  // a dense table, then a hash table
    struct vx_job asked = plain_params(800);
    asked.params.voxelize.range_max[1] = asked.params.voxelize.range_max[2] = large ? 800 : 8;
    asked.params.voxelize.max_voxels = CELLS - 5;
    struct outcome outcome = check_scan(&asked, points, COUNT);
    assert_int_equal(outcome.counts.voxels_kept, CELLS - 5);
    free(outcome.block);
  }
}

// max_voxels is for each cloud. Empty clouds have only a count.
static void batch_with_empty_clouds(void **state) {
  (void)state;
  enum { COUNT = 900 };
  static float points[COUNT][4];
  const int32_t counts[] = {0, 300, 0, 0, 1, 599, 0};
  struct vx_job asked = plain_params(5);
  struct random random = {5};
  for (int i = 0; i < COUNT; i++)
    for (int c = 0; c < 4; c++) points[i][c] = random_in(&random, 0, 5.5f);
  for (int order = 0; order < 2; order++) {
    asked.params.voxelize.max_voxels = 60;
    asked.params.voxelize.order = order ? VX_ORDER_KEY : VX_ORDER_FIRST;
    struct outcome outcome = check_batch_on(lane, &asked, points, 7, counts);
    assert_int_equal(outcome.row_counts[0], 0);
    assert_int_equal(outcome.row_counts[1], 60);
    assert_int_equal(outcome.row_counts[5], 60);
    assert_int_equal(outcome.row_counts[6], 0);
    free(outcome.block);
  }
}

static void batch_is_its_clouds(void **state) {
  (void)state;
  enum { COUNT = 700 };
  static float points[COUNT][4];
  const int32_t counts[2] = {400, 300};
  struct vx_job asked = plain_params(6);
  asked.tensors = VX_TENSOR_BIT(VX_VOXELS);
  struct random random = {6};
  for (int i = 0; i < COUNT; i++)
    for (int c = 0; c < 4; c++) points[i][c] = random_in(&random, -1, 7);
  struct outcome both = run_on(lane, &asked, points, 2, counts);
  struct outcome first = run_scan(&asked, points, counts[0]), second = run_scan(&asked, points + counts[0], counts[1]);
  assert_int_equal(both.layout.bytes, first.layout.bytes + second.layout.bytes);
  assert_memory_equal(both.block, first.block, first.layout.bytes);
  assert_memory_equal(both.block + first.layout.bytes, second.block, second.layout.bytes);
  free(both.block);
  free(first.block);
  free(second.block);
}

static void only_counts(void **state) {
  (void)state;
  struct vx_job asked = plain_params(10);
  asked.tensors = 0;
  const float points[][4] = {{1, 1, 1, 1}, {99, 1, 1, 1}, {NAN, 1, 1, 1}, {1, 1, 1, 1}};
  struct outcome outcome = check_scan(&asked, points, 4);
  assert_int_equal(outcome.outputs, 0);
  assert_int_equal(outcome.counts.kept, 2);
}

static void each_tensor_alone(void **state) {
  (void)state;
  enum { COUNT = 400 };
  static float points[COUNT][4];
  struct random random = {7};
  for (int i = 0; i < COUNT; i++)
    for (int c = 0; c < 4; c++) points[i][c] = random_in(&random, -1, 6);
  struct vx_job asked = plain_params(5);
  asked.params.voxelize.order = VX_ORDER_KEY;
  struct outcome all = check_scan(&asked, points, COUNT);
  for (int i = 0; i < VX_SAMPLED_INDICES; i++) {
    asked.tensors = VX_TENSOR_BIT(i);
    struct outcome one = check_scan(&asked, points, COUNT);
    assert_int_equal(one.layout.bytes, all.layout.shape[i].bytes);
    assert_memory_equal(one.block, tensor(&all, (enum vx_tensor)i), one.layout.bytes);
    free(one.block);
  }
  free(all.block);
}

static void random_requests(void **state) {
  (void)state;
  enum { MOST = 400 };
  static float points[MOST * 7];
  struct random random = {8};
  for (int round = 0; round < 400; round++) {
    struct vx_job asked = plain_params(0);
    asked.inputs[VX_POINTS].dims[1] = 3 + (int32_t)(next_random(&random) % 5);
    asked.params.voxelize.max_points_per_voxel = (int32_t)(next_random(&random) % 5);
    asked.params.voxelize.max_voxels = 1 + (int32_t)(next_random(&random) % 100);
    asked.params.voxelize.choice = (struct vx_choice){(enum vx_voxels_by)(next_random(&random) % 3),
                                                      (enum vx_points_by)(next_random(&random) % 2), round};
    asked.params.voxelize.order = (enum vx_order)(next_random(&random) % 2);
    asked.params.voxelize.fill = (enum vx_fill)(next_random(&random) % 2);
    asked.params.voxelize.feature_dtype = (enum vx_dtype)(next_random(&random) % 2);
    asked.tensors =
        next_random(&random) & (asked.params.voxelize.max_points_per_voxel == 0 ? UNCAPPED_TENSORS : ALL_TENSORS);
    asked.params.voxelize.block_filter = (struct vx_block_filter){
        .enabled = next_random(&random) % 3 == 0,
        .factor = 1 + (int32_t)(next_random(&random) % 4),
        .size = 1 + (int32_t)(next_random(&random) % 8),
        .low = random_in(&random, 0, 2),
        .high = random_in(&random, 2, 8),
    };
    float size = random_in(&random, 0.02f, 2);
    for (int a = 0; a < 3; a++) {
      asked.params.voxelize.range_min[a] = random_in(&random, -5, 0);
      asked.params.voxelize.range_max[a] = random_in(&random, 2, 6);
      asked.params.voxelize.voxel_size[a] = a == 2 && round % 2 ? 20 : size;
    }
    asked.params.voxelize.range_max[2] =
        round % 2 ? asked.params.voxelize.range_min[2] + 20 : asked.params.voxelize.range_max[2];
    int32_t counts[3] = {(int32_t)(next_random(&random) % 150), 0, (int32_t)(next_random(&random) % 250)};
    for (int i = 0; i < MOST * asked.inputs[VX_POINTS].dims[1]; i++) points[i] = random_in(&random, -6, 7);
    free(check_batch_on(lane, &asked, points, 3, counts).block);
  }
}

// Vector code gives the same cylindrical coordinates as vx_to_cylinder.
static void points_made_cylindrical_together_are_the_same(void **state) {
  (void)state;
  enum { COLUMNS = 5, ROW = COLUMNS + VX_CYLINDER_EXTRA };
  static float points[CPU_CYLINDER][COLUMNS], alone[CPU_CYLINDER][ROW], here[CPU_CYLINDER][ROW], any[CPU_CYLINDER][ROW];
  static const float edges[] = {0, -0.0f, 1, -1, 1e30f, -1e-30f, INFINITY, NAN};
  struct random random = {7};
  for (int i = 0; i < CPU_CYLINDER; i++) {
    for (int c = 0; c < COLUMNS; c++) points[i][c] = random_in(&random, -50, 50);
    if (i < 64) points[i][0] = edges[i % 8], points[i][1] = edges[i / 8];
    vx_to_cylinder(points[i], COLUMNS, alone[i]);
  }
  for (int count = CPU_CYLINDER; count > CPU_CYLINDER - 9; count--) {
    cpu_to_cylinder(points[0], COLUMNS, count, here[0]);
    cpu_to_cylinder_any(points[0], COLUMNS, count, any[0]);
    for (int i = 0; i < count; i++)
      for (int c = 0; c < ROW; c++) {
        if (isnan(alone[i][c]) && isnan(here[i][c]) && isnan(any[i][c])) continue;
        assert_int_equal(vx_float_bits(alone[i][c]), vx_float_bits(here[i][c]));
        assert_int_equal(vx_float_bits(alone[i][c]), vx_float_bits(any[i][c]));
      }
    memset(here, 0, sizeof here);
    memset(any, 0, sizeof any);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(empty_scan),
      cmocka_unit_test(nothing_in_range),
      cmocka_unit_test(order_of_first_appearance),
      cmocka_unit_test(cap_points),
      cmocka_unit_test(cap_voxels),
      cmocka_unit_test(near_voxels_stay),
      cmocka_unit_test(full_voxels_stay),
      cmocka_unit_test(infinitely_far_voxels_stay_by_number),
      cmocka_unit_test(random_points_stay),
      cmocka_unit_test(order_key),
      cmocka_unit_test(all_in_one_cell),
      cmocka_unit_test(all_in_different_cells),
      cmocka_unit_test(runs_in_cells),
      cmocka_unit_test(batch_with_empty_clouds),
      cmocka_unit_test(batch_is_its_clouds),
      cmocka_unit_test(only_counts),
      cmocka_unit_test(each_tensor_alone),
      cmocka_unit_test(random_requests),
      cmocka_unit_test(points_made_cylindrical_together_are_the_same),
  };
  return cmocka_run_group_tests(tests, open_backend, close_backend);
}
