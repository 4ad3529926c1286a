// The block filter.
#include "tests/unit/kernels/kernels_reference.h"

static struct vx_job filter_params(float cells, int32_t factor, int32_t size, float low, float high) {
  struct vx_job asked = plain_params(cells);
  asked.params.voxelize.block_filter = (struct vx_block_filter){true, factor, size, low, high};
  return asked;
}

// Flat ground is removed, a post stays, a wall above the upper threshold is removed.
static void block_filter(void **state) {
  (void)state;
  struct vx_job asked = filter_params(10, 1, 1, 0.5f, 4);
  const float points[][4] = {{1, 1, 0.1f, 0}, {1, 1, 0.2f, 0}, {5, 5, 0, 0},  {5, 5, 2, 0},
                             {8, 8, 0, 0},    {8, 8, 9, 0},    {99, 0, 0, 0}, {5, 5, 2.5f, 0}};
  const int32_t ids[8] = {-1, -1, 0, 1, -1, -1, -1, 1};
  struct outcome outcome = check_scan(&asked, points, 8);
  assert_int_equal(outcome.counts.voxels_kept, 2);
  assert_int_equal(outcome.counts.voxels_block_filtered, 3);
  assert_int_equal(outcome.counts.block_filtered, 4);
  assert_memory_equal(tensor(&outcome, VX_POINT_VOXEL_IDS), ids, sizeof ids);
  free(outcome.block);
}

// A window of 2 has the block and the block before it; a window of 3 also has the block after it.
static void window(void **state) {
  (void)state;
  const float points[][4] = {{4, 4, 0, 0}, {5, 4, 1, 0}};
  const struct { int32_t size, kept; } cases[] = {{1, 0}, {2, 1}, {3, 2}};
  for (int i = 0; i < 3; i++) {
    struct vx_job asked = filter_params(10, 1, cases[i].size, 0.5f, 4);
    struct outcome outcome = check_scan(&asked, points, 2);
    assert_int_equal(outcome.counts.voxels_kept, cases[i].kept);
    free(outcome.block);
  }
}

static void thresholds_are_strict(void **state) {
  (void)state;
  const float points[][4] = {{4, 4, 0, 0}, {4, 4, 2, 0}};
  const struct {
    float low, high;
    int32_t kept;
  } cases[] = {{2, 4, 0}, {1, 2, 0}, {1, 4, 2}};
  for (int i = 0; i < 3; i++) {
    struct vx_job asked = filter_params(10, 1, 1, cases[i].low, cases[i].high);
    struct outcome outcome = check_scan(&asked, points, 2);
    assert_int_equal(outcome.counts.voxels_kept, cases[i].kept);
    free(outcome.block);
  }
}

static void only_kept_points_count(void **state) {
  (void)state;
  struct vx_job asked = filter_params(10, 1, 1, 0.3f, 4);
  asked.params.voxelize.max_points_per_voxel = 2;
  asked.params.voxelize.max_voxels = 1;
  const float points[][4] = {{4, 4, 0, 0}, {4, 4, 0.1f, 0}, {4, 4, 0.9f, 0}, {4, 4, 3, 0}};
  struct outcome outcome = check_scan(&asked, points, 4);
  assert_int_equal(outcome.counts.voxels_kept, 0);
  assert_int_equal(outcome.counts.block_filtered, 3);
  assert_int_equal(outcome.counts.over_voxel_cap, 0);
  assert_int_equal(outcome.counts.over_max_voxels, 1);
  free(outcome.block);
}

static void clouds_apart(void **state) {
  (void)state;
  struct vx_job asked = filter_params(10, 2, 4, 0.5f, 4);
  const float points[][4] = {{4, 4, 0, 0}, {4, 4, 2, 0}};
  const int32_t counts[2] = {1, 1};
  struct outcome outcome = check_batch_on(lane, &asked, points, 2, counts);
  assert_int_equal(outcome.counts.voxels_block_filtered, 2);
  free(outcome.block);
}

// A scene with ground and posts, in a grid that no factor above 1 divides.
static void scenes(void **state) {
  (void)state;
  enum { COUNT = 1500 };
  static float points[COUNT][4];
  struct random random = {13};
  for (int i = 0; i < COUNT; i++) {
    bool post = i % 5 == 0;
    points[i][0] = post ? (float)(next_random(&random) % 6) * 5 : random_in(&random, -1, 38);
    points[i][1] = post ? (float)(next_random(&random) % 6) * 5 : random_in(&random, -1, 38);
    points[i][2] = random_in(&random, 0, post ? 3 : 0.2f);
  }
  const int32_t factors[] = {1, 2, 3, 7, 50}, sizes[] = {1, 2, 3, 8, 31, 32};
  for (int f = 0; f < 5; f++) {
    for (int s = 0; s < 6; s++) {
      struct vx_job asked = filter_params(37, factors[f], sizes[s], 0.3f, 2.95f);
      asked.params.voxelize.order = (enum vx_order)((f + s) % 2);
      free(check_scan(&asked, points, COUNT).block);
    }
  }
}

// The window must not exceed an int32 at either end of the longest axis.
static void ends_of_the_widest_axis(void **state) {
  (void)state;
  for (int axis = 0; axis < 2; axis++) {
    struct vx_job asked = filter_params(1, 1, VX_MAX_BLOCK_SIZE, 0.3f, 2);
    asked.params.voxelize.range_max[axis] = 2147483520.0f;
    float points[][4] = {{0, 0, 0, 0}, {0, 0, 0.5f, 0}, {0, 0, 0, 0}, {0, 0, 0.5f, 0}};
    points[2][axis] = points[3][axis] = 2147483392.0f;
    struct outcome outcome = check_scan(&asked, points, 4);
    assert_int_equal(outcome.counts.kept, 4);
    free(outcome.block);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(block_filter),
      cmocka_unit_test(window),
      cmocka_unit_test(thresholds_are_strict),
      cmocka_unit_test(only_kept_points_count),
      cmocka_unit_test(clouds_apart),
      cmocka_unit_test(scenes),
      cmocka_unit_test(ends_of_the_widest_axis),
  };
  return cmocka_run_group_tests(tests, open_backend, close_backend);
}
