// The table of tensors, the layout of the output block, checks of samples, the grid of a request.
#include "kernels/grid.h"
#include "kernels/samples.h"
#include "tests/unit/kernels/kernels_reference.h"

static struct error error;

static void names(void **state) {
  (void)state;
  const char *const tensors[] = {"voxel_coords",
                                 "voxel_num_points",
                                 "voxels",
                                 "voxel_features",
                                 "pillar_features",
                                 "point_voxel_ids",
                                 "voxel_point_mask",
                                 "sampled_indices",
                                 "sampled_points",
                                 "sampled_distances",
                                 "kept_indices",
                                 "boxes",
                                 "scores",
                                 "labels",
                                 "box_indices",
                                 "box_counts",
                                 "track_ids",
                                 "encoded_features",
                                 "cls_preds",
                                 "box_preds",
                                 "dir_cls_preds",
                                 "heatmap",
                                 "center",
                                 "height",
                                 "dim",
                                 "rot",
                                 "vel",
                                 "iou",
                                 "sparse_coords",
                                 "sparse_features",
                                 "grid_coord",
                                 "serialized_code",
                                 "serialized_order",
                                 "serialized_inverse",
                                 "pool_cluster",
                                 "pool_indices",
                                 "pool_indptr",
                                 "pool_head_indices",
                                 "pool_grid_coord",
                                 "pool_serialized_code",
                                 "pool_serialized_order",
                                 "pool_serialized_inverse",
                                 "bev_features",
                                 "occupancy",
                                 "occupancy_counts",
                                 "occupancy_packed",
                                 "bev_max_height",
                                 "bev_min_height",
                                 "bev_max_intensity",
                                 "bev_top_intensity",
                                 "bev_density",
                                 "range_image",
                                 "range_indices",
                                 "range_mask",
                                 "point_pixels",
                                 "point_ranges",
                                 "pixel_coords",
                                 "point_pixel_rows",
                                 "points",
                                 "point_indices",
                                 "point_rows",
                                 "point_fates",
                                 "point_steps"};
  const char *const stages[] = {"copy_in",   "steps",   "voxelize", "features", "encoder", "scatter", "sample",
                                "serialize", "project", "backbone", "network",  "decode",  "nms",     "copy_out"};
  for (int i = 0; i < VX_TENSOR_COUNT; i++) assert_string_equal(vx_tensors[i].name, tensors[i]);
  for (int i = 0; i < VX_STAGE_COUNT; i++) assert_string_equal(vx_stage_names[i], stages[i]);
  assert_string_equal(vx_dtype_name(VX_FLOAT32), "F32");
  assert_string_equal(vx_dtype_name(VX_FLOAT16), "F16");
  assert_string_equal(vx_dtype_name(VX_INT32), "I32");
  assert_string_equal(vx_dtype_name(VX_UINT8), "U8");
  assert_string_equal(vx_dtype_name(VX_INT64), "I64");
  assert_int_equal(vx_dtype_size(VX_INT64), 8);
  assert_int_equal(vx_dtype_size(VX_FLOAT32), 4);
  assert_int_equal(vx_dtype_size(VX_FLOAT16), 2);
  assert_int_equal(vx_dtype_size(VX_INT32), 4);
  assert_int_equal(vx_dtype_size(VX_UINT8), 1);
}

static void assert_shape(const struct vx_shape *shape, enum vx_dtype dtype, int rank, int64_t a, int64_t b, int64_t c) {
  int64_t dims[3] = {a, b, c};
  size_t bytes = vx_dtype_size(dtype);
  assert_int_equal(shape->dtype, dtype);
  assert_int_equal(shape->rank, rank);
  for (int i = 0; i < rank; i++) {
    assert_int_equal(shape->dims[i], dims[i]);
    bytes *= (size_t)dims[i];
  }
  assert_int_equal(shape->bytes, bytes);
}

// Lays out the job's tensors for these clouds, rows, voxels and samples.
static enum vx_status lay_out(const struct vx_job *job, struct vx_sizes sizes, struct vx_layout *layout,
                              struct error *reason) {
  struct vx_sizes all = vx_sizes_of(job);
  all.clouds = sizes.clouds;
  all.rows = sizes.rows;
  all.voxels = sizes.voxels;
  all.samples = sizes.samples;
  return vx_layout_of(job->tensors, &all, layout, reason);
}

static struct vx_job sampling_job(int32_t columns) {
  return (struct vx_job){.op = VX_FPS,
                         .params.fps.sampling = {.enabled = true},
                         .inputs = {vx_points_of(VX_FLOAT32, 0, columns, NULL)},
                         .tensors = VX_SAMPLED_TENSORS};
}

static void shapes(void **state) {
  (void)state;
  struct vx_job asked = plain_params(10);
  struct vx_layout layout;
  asked.inputs[VX_POINTS].dims[1] = 5;
  asked.params.voxelize.max_points_per_voxel = 7;
  asked.params.voxelize.feature_dtype = VX_FLOAT16;
  assert_int_equal(lay_out(&asked, (struct vx_sizes){.rows = 1001, .voxels = 33}, &layout, &error), VX_OK);
  assert_int_equal(layout.tensors, ALL_TENSORS);
  assert_shape(&layout.shape[VX_VOXEL_COORDS], VX_INT32, 2, 33, 4, 0);
  assert_shape(&layout.shape[VX_VOXEL_NUM_POINTS], VX_INT32, 1, 33, 0, 0);
  assert_shape(&layout.shape[VX_VOXELS], VX_FLOAT32, 3, 33, 7, 5);
  assert_shape(&layout.shape[VX_VOXEL_FEATURES], VX_FLOAT16, 2, 33, 5, 0);
  assert_shape(&layout.shape[VX_PILLAR_FEATURES], VX_FLOAT16, 3, 33, 7, 11);
  assert_shape(&layout.shape[VX_POINT_VOXEL_IDS], VX_INT32, 1, 1001, 0, 0);
  assert_shape(&layout.shape[VX_VOXEL_POINT_MASK], VX_UINT8, 2, 33, 7, 0);
}

// Tensors with memory of their own, at[tensor], keep their shape but take no place in the block.
static void places(void **state) {
  (void)state;
  struct vx_job asked = plain_params(10);
  struct vx_layout layout;
  void *at[VX_TENSOR_COUNT] = {NULL};
  assert_int_equal(lay_out(&asked, (struct vx_sizes){.rows = 1001, .voxels = 33}, &layout, &error), VX_OK);
  struct vx_layout packed = layout;
  vx_layout_pack(&packed, at);
  assert_memory_equal(&packed, &layout, sizeof layout);
  at[VX_VOXEL_COORDS] = at[VX_VOXELS] = &layout;
  vx_layout_pack(&packed, at);
  assert_int_equal(packed.tensors, layout.tensors);
  assert_memory_equal(packed.shape, layout.shape, sizeof layout.shape);
  size_t end = 0;
  for (int tensor = 0; tensor < VX_TENSOR_COUNT; tensor++) {
    if (!(layout.tensors & VX_TENSOR_BIT(tensor)) || at[tensor]) continue;
    assert_int_equal(packed.offset[tensor] % VX_TENSOR_ALIGNMENT, 0);
    assert_in_range(packed.offset[tensor], end, end + VX_TENSOR_ALIGNMENT - 1);
    end = packed.offset[tensor] + packed.shape[tensor].bytes;
  }
  assert_int_equal(packed.bytes, end);
  for (int tensor = 0; tensor < VX_TENSOR_COUNT; tensor++) at[tensor] = &layout;
  vx_layout_pack(&packed, at);
  assert_int_equal(packed.bytes, 0);
}

static void sampled_shapes(void **state) {
  (void)state;
  struct vx_job asked = sampling_job(5);
  struct vx_layout layout;
  assert_int_equal(lay_out(&asked, (struct vx_sizes){.clouds = 3, .samples = 21}, &layout, &error), VX_OK);
  assert_shape(&layout.shape[VX_SAMPLED_INDICES], VX_INT32, 2, 3, 7, 0);
  assert_shape(&layout.shape[VX_SAMPLED_POINTS], VX_FLOAT32, 3, 3, 7, 5);
  assert_shape(&layout.shape[VX_SAMPLED_DISTANCES], VX_FLOAT32, 2, 3, 7, 0);
  asked.inputs[VX_POINTS].dtype = VX_FLOAT16;  // the tensors stay float32
  asked.params.fps.sampling.stacked = true;
  assert_int_equal(lay_out(&asked, (struct vx_sizes){.clouds = 3, .samples = 21}, &layout, &error), VX_OK);
  assert_shape(&layout.shape[VX_SAMPLED_INDICES], VX_INT32, 1, 21, 0, 0);
  assert_shape(&layout.shape[VX_SAMPLED_POINTS], VX_FLOAT32, 2, 21, 5, 0);
  assert_shape(&layout.shape[VX_SAMPLED_DISTANCES], VX_FLOAT32, 1, 21, 0, 0);
}

static void no_samples(void **state) {
  (void)state;
  struct vx_job asked = sampling_job(4);
  struct vx_layout layout;
  assert_int_equal(lay_out(&asked, (struct vx_sizes){.clouds = 2}, &layout, &error), VX_OK);
  assert_shape(&layout.shape[VX_SAMPLED_POINTS], VX_FLOAT32, 3, 2, 0, 4);
  assert_int_equal(layout.bytes, 0);
  asked.params.fps.sampling.stacked = true;
  assert_int_equal(lay_out(&asked, (struct vx_sizes){.clouds = 2}, &layout, &error), VX_OK);
  assert_shape(&layout.shape[VX_SAMPLED_POINTS], VX_FLOAT32, 2, 0, 4, 0);
}

// Samples of two clouds, and a part of the error; NULL: accepted.
static void samples_that_cannot_be(void **state) {
  (void)state;
  static const struct {
    enum vx_op op;
    int32_t start, counts[2], samples[2];
    int64_t max_work;
    const char *reason;
  } cases[] = {
      {VX_FPS, 0, {10, 20}, {10, 20}, 500, NULL},
      {VX_FPS, 0, {10, 20}, {10, 20}, 499, "500 points times samples are too much"},
      {VX_VOXELIZE, 0, {10, 20}, {10, 20}, 499, "allowed: up to 499"},
      {VX_FPS, 0, {10, 20}, {10, 21}, 9999, "cloud 1 has 20 points, fewer than the 21 samples"},
      {VX_VOXELIZE, 0, {10, 20}, {11, 1}, 9999, "cloud 0 has 10 voxels"},
      {VX_FPS, 9, {10, 20}, {1, 1}, 9999, NULL},
      {VX_FPS, 10, {10, 20}, {1, 1}, 9999, "cloud 0 has 10 points, so sampling cannot start from number 10"},
      {VX_FPS, 10, {10, 20}, {0, 1}, 9999, NULL},
      {VX_FPS, 7, {0, 0}, {0, 0}, 1, NULL},
      {VX_FPS, 0, {0, 0}, {0, 1}, 9999, "cloud 1 has 0 points"},
      {VX_FPS, 0, {INT32_MAX, INT32_MAX}, {INT32_MAX, INT32_MAX}, INT64_MAX, NULL},
      {VX_FPS, 0, {INT32_MAX, INT32_MAX}, {INT32_MAX, INT32_MAX}, INT64_MAX / 2, "too much work"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct vx_job job = {.op = cases[i].op, .num_clouds = 2, .sample_counts = cases[i].samples};
    *job_sampling(&job) = (struct vx_sampling){true, cases[i].start, true, cases[i].max_work};
    enum vx_status status = vx_check_samples(&job, cases[i].counts, &error);
    assert_int_equal(status, cases[i].reason ? VX_REFUSED : VX_OK);
    if (cases[i].reason && !strstr(error.text, cases[i].reason)) fail_msg("%s: %s", cases[i].reason, error.text);
  }
  // The sum of three such products overflows 64 bits.
  const int32_t most[3] = {INT32_MAX, INT32_MAX, INT32_MAX};
  struct vx_job job = sampling_job(4);
  job.params.fps.sampling.max_work = INT64_MAX - 1;
  job.num_clouds = 3;
  job.sample_counts = most;
  assert_int_equal(vx_check_samples(&job, most, &error), VX_REFUSED);
}

static void samples_and_candidates(void **state) {
  (void)state;
  const int32_t samples[4] = {5, 0, 0, 5};
  struct vx_job points = {.op = VX_FPS, .sample_counts = samples},
                voxels = {.op = VX_VOXELIZE, .sample_counts = samples};
  assert_int_equal(vx_check_candidates(&points, 0, 5, &error), VX_OK);
  assert_int_equal(vx_check_candidates(&points, 1, 0, &error), VX_OK);
  assert_int_equal(vx_check_candidates(&points, 3, 4, &error), VX_REFUSED);
  assert_non_null(strstr(error.text, "cloud 3 has 4 points whose x, y and z are finite"));
  assert_int_equal(vx_check_candidates(&voxels, 3, 4, &error), VX_REFUSED);
  assert_non_null(strstr(error.text, "4 voxels"));
}

static void samples_are_counted_once_accepted(void **state) {
  (void)state;
  const int32_t counts[2] = {10, 20}, samples[2] = {3, 4};
  struct vx_job job = {.op = VX_FPS,
                       .params.fps.sampling = {.enabled = true, .max_work = 110},
                       .num_clouds = 2,
                       .sample_counts = samples};
  assert_int_equal(vx_begin_samples(&job, counts, &error), VX_OK);
  assert_int_equal(job.counts.sampled, 7);
  job.counts.sampled = 0;
  job.params.fps.sampling.max_work = 109;
  assert_int_equal(vx_begin_samples(&job, counts, &error), VX_REFUSED);
  assert_int_equal(job.counts.sampled, 0);
}

static void alignment(void **state) {
  (void)state;
  for (vx_tensor_set tensors = 1; tensors <= ALL_TENSORS; tensors++) {
    struct vx_job asked = plain_params(10);
    struct vx_layout layout;
    size_t end = 0;
    asked.tensors = tensors;
    assert_int_equal(lay_out(&asked, (struct vx_sizes){.rows = 13, .voxels = 3}, &layout, &error), VX_OK);
    for (int i = 0; i < VX_TENSOR_COUNT; i++) {
      if (tensors & VX_TENSOR_BIT(i)) {
        assert_int_equal(layout.offset[i] % VX_TENSOR_ALIGNMENT, 0);
        assert_true(layout.offset[i] >= end && layout.offset[i] < end + VX_TENSOR_ALIGNMENT);
        end = layout.offset[i] + layout.shape[i].bytes;
      }
    }
    assert_int_equal(layout.bytes, end);
  }
}

static void no_rows(void **state) {
  (void)state;
  struct vx_job asked = plain_params(10);
  struct vx_layout layout;
  assert_int_equal(lay_out(&asked, (struct vx_sizes){.rows = 0, .voxels = 0}, &layout, &error), VX_OK);
  assert_int_equal(layout.bytes, 0);
  assert_shape(&layout.shape[VX_VOXELS], VX_FLOAT32, 3, 0, 4, 4);
}

// A size of 0, and others whose product would overflow.
static void maps_without_values_have_no_anchors(void **state) {
  (void)state;
  const int64_t large = INT64_C(1) << 31;
  for (int d = 0; d < VX_MAX_RANK; d++) {
    struct vx_job job = {.op = VX_DECODE, .params.decode = {.num_sizes = 16, .num_rotations = 8}};
    struct vx_input *map = &job.inputs[VX_CLS_PREDS];
    for (int other = 0; other < VX_MAX_RANK; other++) map->dims[other] = other == d ? 0 : large - 1;
    assert_int_equal(vx_sizes_of(&job).rows, 0);
  }
}

static void refuses_what_overflows(void **state) {
  (void)state;
  struct vx_job asked = plain_params(10);
  struct vx_layout layout;
  asked.params.voxelize.max_points_per_voxel = 1024;
  assert_int_equal(lay_out(&asked, (struct vx_sizes){.rows = 0, .voxels = INT64_MAX}, &layout, &error), VX_REFUSED);
  assert_non_null(strstr(error.text, "voxel_coords"));
  // Each fits alone, but not both.
  asked.tensors = VX_TENSOR_BIT(VX_VOXEL_COORDS) | VX_TENSOR_BIT(VX_VOXEL_NUM_POINTS);
  assert_int_equal(lay_out(&asked, (struct vx_sizes){.rows = 0, .voxels = (INT64_C(1) << 60) - 1}, &layout, &error),
                   VX_REFUSED);
  assert_non_null(strstr(error.text, "together"));
}

static void refuses_a_shape_without_a_cap(void **state) {
  (void)state;
  const enum vx_tensor need_a_cap[] = {VX_VOXELS, VX_PILLAR_FEATURES, VX_VOXEL_POINT_MASK};
  struct vx_job asked = plain_params(10);
  struct vx_layout layout;
  asked.params.voxelize.max_points_per_voxel = 0;
  for (int i = 0; i < 3; i++) {
    asked.tensors = VX_TENSOR_BIT(need_a_cap[i]);
    assert_int_equal(lay_out(&asked, (struct vx_sizes){.rows = 1, .voxels = 1}, &layout, &error), VX_REFUSED);
    assert_non_null(strstr(error.text, vx_tensors[need_a_cap[i]].name));
    assert_non_null(strstr(error.text, "max_points_per_voxel"));
  }
  asked.tensors = UNCAPPED_TENSORS;
  assert_int_equal(lay_out(&asked, (struct vx_sizes){.rows = 1, .voxels = 1}, &layout, &error), VX_OK);
}

static struct vx_voxelize box(float x, float y, float z, float size) {
  return (struct vx_voxelize){.range_max = {x, y, z}, .voxel_size = {size, size, size}};
}

static void grid_of_usual_ranges(void **state) {
  (void)state;
  struct vx_voxelize params = {
      .range_min = {0, -39.68f, -3}, .range_max = {69.12f, 39.68f, 1}, .voxel_size = {0.16f, 0.16f, 4}};
  struct vx_grid grid;
  assert_int_equal(vx_grid_of(&params, 1, &grid, &error), VX_OK);
  assert_int_equal(grid.cells[0], 432);
  assert_int_equal(grid.cells[1], 496);
  assert_int_equal(grid.cells[2], 1);
}

static void grid_rounds_halves_away_from_zero(void **state) {
  (void)state;
  struct vx_voxelize params = box(0.5f, 2.5f, 3.49f, 1);
  struct vx_grid grid;
  assert_int_equal(vx_grid_of(&params, 1, &grid, &error), VX_OK);
  assert_int_equal(grid.cells[0], 1);
  assert_int_equal(grid.cells[1], 3);
  assert_int_equal(grid.cells[2], 3);
}

static void grid_without_cells(void **state) {
  (void)state;
  struct vx_voxelize params = box(1, 0.49f, 1, 1);
  struct vx_grid grid;
  assert_int_equal(vx_grid_of(&params, 1, &grid, &error), VX_REFUSED);
  assert_non_null(strstr(error.text, "along y"));
  params = box(1, 1, -5, 1);
  assert_int_equal(vx_grid_of(&params, 1, &grid, &error), VX_REFUSED);
}

static void grid_with_too_many_cells(void **state) {
  (void)state;
  struct vx_grid grid;
  struct vx_voxelize params = box(2147483648.0f, 1, 1, 1);
  assert_int_equal(vx_grid_of(&params, 1, &grid, &error), VX_REFUSED);
  params = box(2147483520.0f, 1, 1, 1);
  assert_int_equal(vx_grid_of(&params, 1, &grid, &error), VX_OK);
  assert_int_equal(grid.cells[0], 2147483520);
  params = box(3e38f, 1, 1, 1e-38f);  // the quotient is infinite
  assert_int_equal(vx_grid_of(&params, 1, &grid, &error), VX_REFUSED);
  params = box(3e38f, 1, 1, 1);
  params.range_min[0] = -3e38f;  // the difference is infinite
  assert_int_equal(vx_grid_of(&params, 1, &grid, &error), VX_REFUSED);
}

static void grid_product(void **state) {
  (void)state;
  struct vx_voxelize params = box(2097152, 2097152, 1048576, 1);  // 2^21 x 2^21 x 2^20
  struct vx_grid grid;
  assert_int_equal(vx_grid_of(&params, 1, &grid, &error), VX_OK);
  assert_int_equal(vx_grid_of(&params, 2, &grid, &error), VX_REFUSED);
  params = box(2147483520.0f, 2147483520.0f, 2147483520.0f, 1);
  assert_int_equal(vx_grid_of(&params, 1024, &grid, &error), VX_REFUSED);
  params = box(2147483520.0f, 2147483520.0f, 1, 1);
  assert_int_equal(vx_grid_of(&params, 1, &grid, &error), VX_OK);
}

// Corner cells of a grid of 2^n + 1 cells on each axis, which need n + 1 bits. The keys ascend, and each gives its cell
// back.
static void keys_use_at_most_64_bits(void **state) {
  (void)state;
  const int32_t cells[3] = {(1 << 21) + 1, (1 << 20) + 1, (1 << 20) + 1};  // over 2^61 cells
  struct vx_key_format format = vx_key_format_of(cells[0], cells[1], cells[2]);
  assert_int_equal(format.bits, 64);
  uint64_t last = 0;
  for (int corner = 0; corner < 8; corner++) {
    int32_t cell[3], back[3];
    for (int a = 0; a < 3; a++) cell[a] = corner >> (2 - a) & 1 ? cells[a] - 1 : 0;
    uint64_t key = vx_key(format, cell[0], cell[1], cell[2]);
    assert_true(corner == 0 || key > last);
    vx_cell_of_key(format, key, back);
    assert_memory_equal(back, cell, sizeof cell);
    last = key;
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(names),
      cmocka_unit_test(shapes),
      cmocka_unit_test(places),
      cmocka_unit_test(sampled_shapes),
      cmocka_unit_test(no_samples),
      cmocka_unit_test(samples_that_cannot_be),
      cmocka_unit_test(samples_and_candidates),
      cmocka_unit_test(samples_are_counted_once_accepted),
      cmocka_unit_test(alignment),
      cmocka_unit_test(no_rows),
      cmocka_unit_test(maps_without_values_have_no_anchors),
      cmocka_unit_test(refuses_what_overflows),
      cmocka_unit_test(refuses_a_shape_without_a_cap),
      cmocka_unit_test(grid_of_usual_ranges),
      cmocka_unit_test(grid_rounds_halves_away_from_zero),
      cmocka_unit_test(grid_without_cells),
      cmocka_unit_test(grid_with_too_many_cells),
      cmocka_unit_test(grid_product),
      cmocka_unit_test(keys_use_at_most_64_bits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
