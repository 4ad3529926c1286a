// Dense maps: scatter as a job, and the maps of a voxelization. tests/oracle checks large maps.
#include "tests/unit/kernels/kernels_reference.h"

enum { ROWS = 5, CHANNELS = 2 };

// ---- scatter --------------------------------------------------------------------------------------------------------

static const float features[ROWS][CHANNELS] = {{1, -1}, {2, -2}, {3, -3}, {4, -4}, {5, -5}};
static const uint16_t halves[ROWS][CHANNELS] = {{1, 11}, {2, 12}, {3, 13}, {4, 14}, {5, 15}};
// (cloud, z, y, x). Row 2 has the cell of row 0; row 4 is outside the grid.
static const int32_t coords[ROWS][4] = {{1, 1, 0, 2}, {0, 0, 1, 0}, {1, 1, 0, 2}, {1, 0, 0, 0}, {0, 0, 0, 3}};

// 3 x 2 x 2 cells.
static struct vx_job scatter_job(int64_t rows, enum vx_dtype dtype, const void *values) {
  return (struct vx_job){.op = VX_SCATTER,
                         .params.scatter = {.grid_size = {3, 2, 2}},
                         .inputs = {{dtype, 2, {rows, CHANNELS}, values}, {VX_INT32, 2, {rows, 4}, coords}},
                         .tensors = VX_SCATTER_TENSORS};
}

static struct outcome run_rows(const struct vx_job *asked, int32_t clouds) {
  struct outcome outcome = {0};
  struct vx_job job = *asked;
  job.caller = &(const struct vx_caller){.output = give_output};
  job.ctx = &outcome;
  job.num_clouds = clouds;
  job.row_counts = outcome.row_counts;
  outcome.status = backend->run(lane, &job, &outcome.error);
  outcome.counts = job.counts;
  return outcome;
}

// The index of channel c of a cell in [B, C * nz, ny, nx].
static size_t place_of(const int32_t cell[4], int32_t c) {
  return ((((size_t)cell[0] * CHANNELS + (size_t)c) * 2 + (size_t)cell[1]) * 2 + (size_t)cell[2]) * 3 + (size_t)cell[3];
}

static void rows_are_written_at_their_cells(void **state) {
  (void)state;
  const struct vx_job asked = scatter_job(ROWS, VX_FLOAT32, features);
  struct outcome outcome = run_rows(&asked, 2);
  float expected[2 * CHANNELS * 2 * 2 * 3] = {0};
  static const int kept[] = {0, 1, 3};
  for (int i = 0; i < 3; i++)
    for (int c = 0; c < CHANNELS; c++) expected[place_of(coords[kept[i]], c)] = features[kept[i]][c];
  assert_int_equal(outcome.status, VX_OK);
  const struct vx_shape *shape = &outcome.layout.shape[VX_BEV_FEATURES];
  const int64_t dims[4] = {2, CHANNELS * 2, 2, 3};
  assert_memory_equal(shape->dims, dims, sizeof dims);
  assert_int_equal(shape->bytes, sizeof expected);
  assert_memory_equal(tensor(&outcome, VX_BEV_FEATURES), expected, sizeof expected);
  free(outcome.block);
}

static void each_row_has_one_fate(void **state) {
  (void)state;
  struct vx_job asked = scatter_job(ROWS, VX_FLOAT32, features);
  for (int with_tensor = 0; with_tensor < 2; with_tensor++) {
    asked.tensors = with_tensor ? VX_SCATTER_TENSORS : 0;
    struct outcome outcome = run_rows(&asked, 2);
    assert_int_equal(outcome.outputs, with_tensor);
    assert_int_equal(outcome.counts.received, ROWS);
    assert_int_equal(outcome.counts.kept, 3);
    assert_int_equal(outcome.counts.out_of_range, 1);
    assert_int_equal(outcome.counts.duplicate, 1);
    assert_int_equal(outcome.row_counts[0], 1);
    assert_int_equal(outcome.row_counts[1], 2);
    free(outcome.block);
  }
}

// With one cloud, rows of the second are out of range, as are negative coordinates.
static void every_coordinate_has_bounds(void **state) {
  (void)state;
  struct vx_job asked = scatter_job(ROWS, VX_FLOAT32, features);
  struct outcome outcome = run_rows(&asked, 1);
  assert_int_equal(outcome.counts.out_of_range, 4);
  free(outcome.block);
  for (int axis = 0; axis < 4; axis++) {
    static const int32_t limits[4] = {2, 2, 2, 3};
    int32_t cells[3][4] = {{0, 0, 0, 0}, {0, 0, 0, 0}, {0, 0, 0, 0}};
    cells[0][axis] = -1;
    cells[1][axis] = limits[axis];
    cells[2][axis] = limits[axis] - 1;
    asked = scatter_job(3, VX_FLOAT32, features);
    asked.inputs[VX_COORDS].data = cells;
    outcome = run_rows(&asked, 2);
    assert_int_equal(outcome.counts.out_of_range, 2);
    assert_int_equal(outcome.counts.kept, 1);
    free(outcome.block);
  }
}

static void halves_are_copied_as_they_are(void **state) {
  (void)state;
  const struct vx_job asked = scatter_job(2, VX_FLOAT16, halves);
  struct outcome outcome = run_rows(&asked, 2);
  const uint16_t *map = tensor(&outcome, VX_BEV_FEATURES);
  assert_int_equal(outcome.layout.shape[VX_BEV_FEATURES].dtype, VX_FLOAT16);
  assert_int_equal(map[place_of(coords[0], 1)], 11);
  assert_int_equal(map[place_of(coords[1], 0)], 2);
  assert_int_equal(map[place_of(coords[3], 0)], 0);
  free(outcome.block);
}

static void no_rows_give_an_empty_map(void **state) {
  (void)state;
  const struct vx_job asked = scatter_job(0, VX_FLOAT32, features);
  struct outcome outcome = run_rows(&asked, 2);
  assert_int_equal(outcome.status, VX_OK);
  const unsigned char *map = tensor(&outcome, VX_BEV_FEATURES);
  for (size_t i = 0; i < outcome.layout.shape[VX_BEV_FEATURES].bytes; i++) assert_int_equal(map[i], 0);
  free(outcome.block);
}

static void features_and_coordinates_must_fit(void **state) {
  (void)state;
  struct vx_job asked = scatter_job(ROWS, VX_FLOAT32, features);
  asked.inputs[VX_COORDS].dims[0] = ROWS - 1;
  assert_int_equal(run_rows(&asked, 2).status, VX_REFUSED);
  asked = scatter_job(ROWS, VX_FLOAT32, features);
  asked.inputs[VX_COORDS].dims[1] = 3;
  assert_int_equal(run_rows(&asked, 2).status, VX_REFUSED);
  asked = scatter_job(ROWS, VX_INT32, features);
  assert_int_equal(run_rows(&asked, 2).status, VX_REFUSED);
  asked = scatter_job(ROWS, VX_FLOAT32, features);
  asked.params.scatter.grid_size[1] = 0;
  assert_int_equal(run_rows(&asked, 2).status, VX_REFUSED);
  // 2^63 cells in both clouds; 2^62 is the maximum.
  asked.params.scatter = (struct vx_scatter){.grid_size = {1 << 30, 1 << 30, 4}};
  struct outcome outcome = run_rows(&asked, 2);
  assert_int_equal(outcome.status, VX_REFUSED);
  // With 2^62 cells a job can count its rows, but not write a map.
  asked.params.scatter.grid_size[2] = 2;
  asked.tensors = 0;
  outcome = run_rows(&asked, 2);
  assert_int_equal(outcome.status, VX_OK);
  assert_int_equal(outcome.counts.kept, 4);  // row 4, x = 3, is inside this grid
  asked.tensors = VX_SCATTER_TENSORS;
  assert_int_equal(run_rows(&asked, 2).status, VX_REFUSED);
}

// ---- maps -----------------------------------------------------------------------------------------------------------

// 10 x 2 x 2 cells of one metre; a voxel keeps one point.
static struct vx_job map_job(vx_tensor_set tensors) {
  return (struct vx_job){.params.voxelize = {.range_max = {10, 2, 2},
                                             .voxel_size = {1, 1, 1},
                                             .max_points_per_voxel = 1,
                                             .max_voxels = 1,
                                             .intensity = 3},
                         .inputs = {vx_points_of(VX_FLOAT32, 0, 4, NULL)},
                         .tensors = tensors};
}

// Three points above one another, one far along x, one out of range, one not finite.
static const float points[][4] = {{0.5f, 0.5f, 0.25f, 7}, {0.5f, 0.5f, 1.5f, -3},    {0.5f, 0.5f, 1.5f, 9},
                                  {9.5f, 1.5f, -0.0f, 2}, {10.0f, 0.5f, 0.5f, 1000}, {NAN, 0.5f, 0.5f, 1000}};
enum { POINTS = sizeof points / sizeof *points, CELLS = 40, PILLARS = 20, LAST = PILLARS - 1 };

static void maps_are_of_all_points_in_range(void **state) {
  (void)state;
  const struct vx_job asked = map_job(VX_CELL_MAPS | VX_PILLAR_MAPS);
  struct outcome outcome = run_scan(&asked, points, POINTS);
  assert_int_equal(outcome.status, VX_OK);
  assert_int_equal(outcome.counts.over_max_voxels, 3);  // this changes no map
  const uint8_t *occupancy = tensor(&outcome, VX_OCCUPANCY), *packed = tensor(&outcome, VX_OCCUPANCY_PACKED);
  const int32_t *counts = tensor(&outcome, VX_OCCUPANCY_COUNTS);
  for (int cell = 0; cell < CELLS; cell++) {
    int32_t expected = cell == 0 || cell == LAST ? 1 : cell == PILLARS ? 2 : 0;
    assert_int_equal(counts[cell], expected);
    assert_int_equal(occupancy[cell], expected > 0);
    assert_int_equal(packed[cell / 10 * 2 + cell % 10 / 8] >> cell % 10 % 8 & 1, expected > 0);
  }
  assert_int_equal(outcome.layout.shape[VX_OCCUPANCY_PACKED].dims[3], 2);
  assert_int_equal(packed[3], 2);  // bits beyond the line are 0
  free(outcome.block);
}

static void heights_and_intensities(void **state) {
  (void)state;
  static const struct {
    enum vx_tensor map;
    float first, last;
  } cases[] = {{VX_BEV_MAX_HEIGHT, 1.5f, 0},
               {VX_BEV_MIN_HEIGHT, 0.25f, 0},
               {VX_BEV_MAX_INTENSITY, 9, 2},
               {VX_BEV_TOP_INTENSITY, -3, 2},
               {VX_BEV_DENSITY, 0x1.555556p-2f, 0x1.555556p-3f}};  // ln 4 / ln 64 and ln 2 / ln 64
  const struct vx_job asked = map_job(VX_PILLAR_MAPS);
  struct outcome outcome = run_scan(&asked, points, POINTS);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    float expected[PILLARS] = {0};
    expected[0] = cases[i].first;
    expected[LAST] = cases[i].last;
    assert_memory_equal(tensor(&outcome, cases[i].map), expected, sizeof expected);  // -0 becomes 0
  }
  free(outcome.block);
}

static void each_map_alone_is_the_same(void **state) {
  (void)state;
  const struct vx_job all = map_job(VX_DENSE_TENSORS);
  static const int32_t counts[] = {2, 0, 4};
  struct outcome together = run_on(lane, &all, points, 3, counts);
  for (enum vx_tensor map = 0; map < VX_TENSOR_COUNT; map++) {
    if ((VX_DENSE_TENSORS & VX_TENSOR_BIT(map)) == 0) continue;
    const struct vx_job asked = map_job(VX_TENSOR_BIT(map));
    struct outcome alone = run_on(lane, &asked, points, 3, counts);
    assert_int_equal(alone.layout.shape[map].dims[0], 3);
    assert_memory_equal(tensor(&alone, map), tensor(&together, map), alone.layout.shape[map].bytes);
    free(alone.block);
  }
  free(together.block);
}

static void points_of_three_columns_have_maps_of_height(void **state) {
  (void)state;
  static const float bare[][3] = {{0.5f, 0.5f, 0.5f}, {0.5f, 0.5f, 1.0f}};
  struct vx_job asked = map_job(VX_CELL_MAPS | (VX_PILLAR_MAPS & ~VX_INTENSITY_MAPS));
  asked.inputs[VX_POINTS].dims[1] = 3;
  struct outcome outcome = run_scan(&asked, bare, 2);
  const float *height = tensor(&outcome, VX_BEV_MAX_HEIGHT);
  assert_true(height[0] == 1.0f);
  free(outcome.block);
}

static void density_is_one_from_63_points_on(void **state) {
  (void)state;
  assert_true(vx_density(0) == 0.0f);
  for (int32_t n = 1; n < 63; n++) assert_true(vx_density(n) == (float)(log(n + 1.0) / log(64.0)));
  assert_true(vx_density(63) == 1.0f);
  assert_true(vx_density(INT32_MAX) == 1.0f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rows_are_written_at_their_cells),  cmocka_unit_test(each_row_has_one_fate),
      cmocka_unit_test(every_coordinate_has_bounds),      cmocka_unit_test(halves_are_copied_as_they_are),
      cmocka_unit_test(no_rows_give_an_empty_map),        cmocka_unit_test(features_and_coordinates_must_fit),
      cmocka_unit_test(maps_are_of_all_points_in_range),  cmocka_unit_test(heights_and_intensities),
      cmocka_unit_test(each_map_alone_is_the_same),       cmocka_unit_test(points_of_three_columns_have_maps_of_height),
      cmocka_unit_test(density_is_one_from_63_points_on),
  };
  return cmocka_run_group_tests(tests, open_backend, close_backend);
}
