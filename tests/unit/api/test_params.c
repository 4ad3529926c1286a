// The parameter tables: accepted values, and errors of refused values.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "api/ops/ops.h"
#include "api/presets.h"
#include "api/query.h"

static struct presets *presets;

static int load(void **state) {
  (void)state;
  struct error error;
  presets = presets_load("", &error);
  return presets ? 0 : -1;
}

static int unload(void **state) {
  (void)state;
  presets_close(presets);
  return 0;
}

// Parses "a=1&b=2". \1 stands for a NUL in a value.
static bool parse_for(enum vx_op op, const char *text, struct job_request *request, struct error *error) {
  static char memory[20000];
  struct query query = {.count = 0};
  snprintf(memory, sizeof memory, "%s", text);
  for (char *item = strtok(memory, "&"); item; item = strtok(NULL, "&")) {
    char *equals = strchr(item, '=');
    size_t name_length = equals ? (size_t)(equals - item) : strlen(item);
    char *value = equals ? equals + 1 : NULL;
    size_t value_length = value ? strlen(value) : 0;
    for (size_t i = 0; i < value_length; i++)
      if (value[i] == '\1') value[i] = '\0';
    query.items[query.count++] = (struct query_item){item, value, name_length, value_length};
  }
  *error = (struct error){.kind = ERROR_NONE};
  return job_request_from_query(request, op, &query, &(const struct named){presets, NULL}, error);
}

static bool parse(const char *text, struct job_request *request, struct error *error) {
  return parse_for(VX_VOXELIZE, text, request, error);
}

#define GRID "point_cloud_range=0,0,0,10,10,10&voxel_size=1,1,1"

static void defaults_hold(void **state) {
  (void)state;
  static struct job_request request;
  struct error error;
  assert_true(parse(GRID, &request, &error));
  assert_int_equal(request.num_features, 4);
  assert_int_equal(request.job.params.voxelize.max_points_per_voxel, 32);
  assert_int_equal(request.job.params.voxelize.max_voxels, 40000);
  assert_int_equal(request.dtype, VX_FLOAT32);
  assert_int_equal(request.job.tensors, VX_TENSOR_BIT(VX_VOXEL_COORDS) | VX_TENSOR_BIT(VX_VOXEL_NUM_POINTS) |
                                            VX_TENSOR_BIT(VX_VOXEL_FEATURES));
  assert_int_equal(request.num_clouds, 0);
}

static void every_value_is_read(void **state) {
  (void)state;
  static struct job_request request;
  struct error error;
  assert_true(parse(
      GRID
      "&num_features=5&dtype=float16&max_points_per_voxel=7&max_voxels=9&feature=points,pillar&feature_dtype=float16"
      "&order=key&fill=mean&block_filter=2,3,0.5,4&outputs=voxels,voxel_point_mask&point_counts=3,0,4&timeout_ms=12",
      &request, &error));
  assert_int_equal(request.num_features, 5);
  assert_int_equal(request.dtype, VX_FLOAT16);
  assert_int_equal(request.job.params.voxelize.feature_dtype, VX_FLOAT16);
  assert_int_equal(request.job.params.voxelize.max_points_per_voxel, 7);
  assert_int_equal(request.job.params.voxelize.max_voxels, 9);
  assert_int_equal(request.job.params.voxelize.order, VX_ORDER_KEY);
  assert_int_equal(request.job.params.voxelize.fill, VX_FILL_MEAN);
  assert_true(request.job.params.voxelize.block_filter.enabled);
  assert_int_equal(request.job.params.voxelize.block_filter.factor, 2);
  assert_int_equal(request.job.params.voxelize.block_filter.size, 3);
  assert_true(request.job.params.voxelize.block_filter.low == 0.5f &&
              request.job.params.voxelize.block_filter.high == 4.0f);
  assert_int_equal(request.job.tensors, VX_TENSOR_BIT(VX_VOXELS) | VX_TENSOR_BIT(VX_VOXEL_POINT_MASK));
  assert_int_equal(request.num_clouds, 3);
  assert_int_equal(request.point_counts[2], 4);
  assert_int_equal(request.timeout_ms, 12);
}

static void a_word_with_number_0_replaces_that_of_a_preset(void **state) {
  (void)state;
  static struct job_request request;
  struct error error;
  assert_true(parse("preset=nuscenes_dynamic_pillar", &request, &error));
  assert_int_equal(request.job.params.voxelize.order, VX_ORDER_KEY);
  assert_true(parse("preset=nuscenes_dynamic_pillar&order=first", &request, &error));
  assert_int_equal(request.job.params.voxelize.order, VX_ORDER_FIRST);
  assert_true(parse("preset=voxelize_cuda", &request, &error));
  assert_int_equal(request.job.params.voxelize.feature_dtype, VX_FLOAT16);
  assert_true(parse("preset=voxelize_cuda&feature_dtype=float32", &request, &error));
  assert_int_equal(request.job.params.voxelize.feature_dtype, VX_FLOAT32);
}

struct refusal {
  const char *query, *parameter;
  enum error_kind kind;
};

static void check_refusal(enum vx_op op, const struct refusal *expected) {
  static struct job_request request;
  struct error error;
  if (parse_for(op, expected->query, &request, &error)) fail_msg("%s was taken", expected->query);
  if ((enum error_kind)error.kind != expected->kind || strcmp(error.parameter, expected->parameter) != 0)
    fail_msg("%s: problem %d at '%s': %s", expected->query, (int)error.kind, error.parameter, error.text);
  assert_true(strlen(error.text) > 10);
}

static void refusals_name_the_parameter(void **state) {
  (void)state;
  static const struct refusal cases[] = {
      {"", "point_cloud_range", ERROR_BAD_PARAMETER},
      {"point_cloud_range=0,0,0,10,10,10", "voxel_size", ERROR_BAD_PARAMETER},
      {GRID "&num_features=2", "num_features", ERROR_BAD_PARAMETER},
      {GRID "&num_features=65", "num_features", ERROR_BAD_PARAMETER},
      {GRID "&num_features=4.0", "num_features", ERROR_BAD_PARAMETER},
      {GRID "&num_features=+4", "num_features", ERROR_BAD_PARAMETER},
      {GRID "&num_features= 4", "num_features", ERROR_BAD_PARAMETER},
      {GRID "&num_features=4,4", "num_features", ERROR_BAD_PARAMETER},
      {GRID "&num_features=", "num_features", ERROR_BAD_PARAMETER},
      {GRID "&num_features", "num_features", ERROR_BAD_PARAMETER},
      {GRID "&num_features=4\1", "num_features", ERROR_BAD_PARAMETER},
      {GRID "&max_voxels=0", "max_voxels", ERROR_BAD_PARAMETER},
      {GRID "&max_voxels=16777217", "max_voxels", ERROR_BAD_PARAMETER},
      {GRID "&max_voxels=99999999999999999999", "max_voxels", ERROR_BAD_PARAMETER},
      {GRID "&max_points_per_voxel=1025", "max_points_per_voxel", ERROR_BAD_PARAMETER},
      {GRID "&max_points_per_voxel=-1", "max_points_per_voxel", ERROR_BAD_PARAMETER},
      {GRID "&feature=mean,mean", "feature", ERROR_BAD_PARAMETER},
      {GRID "&feature=voxels", "feature", ERROR_BAD_PARAMETER},
      {GRID "&feature=mean,", "feature", ERROR_BAD_PARAMETER},
      {GRID "&order=random", "order", ERROR_BAD_PARAMETER},
      {GRID "&dtype=float64", "dtype", ERROR_BAD_PARAMETER},
      {GRID "&outputs=voxels", "outputs", ERROR_BAD_PARAMETER},
      {GRID "&outputs=sampled_points", "outputs", ERROR_BAD_PARAMETER},
      {GRID "&block_filter=on", "block_filter", ERROR_BAD_PARAMETER},
      {GRID "&block_filter=0,1,1,1", "block_filter", ERROR_BAD_PARAMETER},
      {GRID "&block_filter=1,33,1,1", "block_filter", ERROR_BAD_PARAMETER},
      {GRID "&block_filter=1,1,1", "block_filter", ERROR_BAD_PARAMETER},
      {GRID "&point_counts=1,-1", "point_counts", ERROR_BAD_PARAMETER},
      {GRID "&point_counts=1,,1", "point_counts", ERROR_BAD_PARAMETER},
      {GRID "&point_counts=4294967297", "point_counts", ERROR_BAD_PARAMETER},
      {GRID "&preset=nobody", "preset", ERROR_BAD_PARAMETER},
      {GRID "&order=key&order=key", "order", ERROR_BAD_PARAMETER},
      {"preset=kitti_second&preset=kitti_second", "preset", ERROR_BAD_PARAMETER},
      {GRID "&voxel_sise=1,1,1", "voxel_sise", ERROR_BAD_PARAMETER},
      {"point_cloud_range=0,0,0,10,10,10&voxel_size=0,1,1", "voxel_size", ERROR_BAD_PARAMETER},
      {"point_cloud_range=0,0,0,10,10,10&voxel_size=1,-1,1", "voxel_size", ERROR_BAD_PARAMETER},
      {"point_cloud_range=0,0,0,10,10,10&voxel_size=1,1e-60,1", "voxel_size", ERROR_BAD_PARAMETER},
      {"point_cloud_range=0,0,0,10,10,10&voxel_size=1,nan,1", "voxel_size", ERROR_BAD_PARAMETER},
      {"point_cloud_range=0,0,0,10,10,10&voxel_size=1,0x1p0,1", "voxel_size", ERROR_BAD_PARAMETER},
      {"point_cloud_range=0,0,0,10,10,10&voxel_size=1,1", "voxel_size", ERROR_BAD_PARAMETER},
      {"point_cloud_range=0,0,0,10,10,10&voxel_size=1,1,1,1", "voxel_size", ERROR_BAD_PARAMETER},
      {"point_cloud_range=0,0,0,10,-10,10&voxel_size=1,1,1", "point_cloud_range", ERROR_BAD_PARAMETER},
      {"point_cloud_range=0,0,0,10,0,10&voxel_size=1,1,1", "point_cloud_range", ERROR_BAD_PARAMETER},
      {"point_cloud_range=0,0,0,1e39,10,10&voxel_size=1,1,1", "point_cloud_range", ERROR_BAD_PARAMETER},
      {"point_cloud_range=0,0,0,1e10,10,10&voxel_size=1,1,1", "voxel_size", ERROR_IMPOSSIBLE},
      {"point_cloud_range=-3e38,0,0,3e38,10,10&voxel_size=1,1,1", "voxel_size", ERROR_IMPOSSIBLE},
      {"point_cloud_range=0,0,0,2e9,2e9,10&voxel_size=1,1,1", "voxel_size", ERROR_IMPOSSIBLE},
      {"point_cloud_range=0,0,0,10,10,10&voxel_size=1,1,100", "voxel_size", ERROR_IMPOSSIBLE},
      {GRID "&max_points_per_voxel=0&feature=points", "max_points_per_voxel", ERROR_IMPOSSIBLE},
      {GRID "&max_points_per_voxel=0&feature=pillar", "max_points_per_voxel", ERROR_IMPOSSIBLE},
      {GRID "&max_points_per_voxel=0&outputs=voxel_point_mask", "max_points_per_voxel", ERROR_IMPOSSIBLE},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_refusal(VX_VOXELIZE, &cases[i]);
}

static void refusals_of_columns(void **state) {
  (void)state;
  static const struct refusal cases[] = {
      {"format=las", "format", ERROR_BAD_PARAMETER},
      {"format=", "format", ERROR_BAD_PARAMETER},
      {"format=pcd&dtype=float16", "dtype", ERROR_BAD_PARAMETER},
      {"fields=x,y", "fields", ERROR_BAD_PARAMETER},
      {"fields=x,y,z,", "fields", ERROR_BAD_PARAMETER},
      {"fields=x,y,z,a,a", "fields", ERROR_BAD_PARAMETER},
      {"fields=x,y,z,\1", "fields", ERROR_BAD_PARAMETER},
      {"fields=x,y,z,a\tb", "fields", ERROR_BAD_PARAMETER},
      {"fields=y,x,z", "fields", ERROR_BAD_PARAMETER},
      {"fields=a,b,c,x", "fields", ERROR_BAD_PARAMETER},
      {"fields=x,y,z&num_features=4", "num_features", ERROR_BAD_PARAMETER},
      {"num_features=4&fields=x,y,z", "num_features", ERROR_BAD_PARAMETER},
      {"intensity_scale=2", "intensity_scale", ERROR_BAD_PARAMETER},
      {"intensity_scale=2&fields=x,y,z,i", "intensity_scale", ERROR_BAD_PARAMETER},
      {"intensity_scale=0&format=pcd", "intensity_scale", ERROR_BAD_PARAMETER},
      {"intensity_scale=1e39&format=pcd", "intensity_scale", ERROR_BAD_PARAMETER},
      {"intensity_scale=2&fields=x,y,z,intensity&dtype=float16", "intensity_scale", ERROR_BAD_PARAMETER},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_refusal(VX_TRANSFORM, &cases[i]);
  char names[1024] = "fields=n";
  for (int i = 0; i < 64; i++) snprintf(names + strlen(names), sizeof names - strlen(names), ",%d", i);
  check_refusal(VX_TRANSFORM, &(struct refusal){names, "fields", ERROR_BAD_PARAMETER});  // 65
  memset(names + strlen("fields="), 'n', 256);
  memcpy(names + strlen("fields=") + 250, ",a,b,c", 7);
  check_refusal(VX_TRANSFORM, &(struct refusal){names, "fields", ERROR_BAD_PARAMETER});  // 256 bytes
}

static void columns_are_named(void **state) {
  (void)state;
  static struct job_request request;
  struct error error;
  assert_true(
      parse("preset=kitti_second&fields=x,y,z,intensity,a \"b\"&format=pcd&intensity_scale=0.25", &request, &error));
  assert_int_equal(request.num_features, 5);
  assert_int_equal(request.job.inputs[VX_POINTS].dims[1], 5);
  assert_int_equal(request.format, FORMAT_PCD);
  char memory[1024];
  struct text text = text_over(memory, sizeof memory);
  job_request_write(&request, &text);
  assert_non_null(strstr(memory,
                         "\"num_features\":5,\"dtype\":\"float32\",\"format\":\"pcd\",\"fields\":[\"x\",\"y\",\"z\","
                         "\"intensity\",\"a \\\"b\\\"\"],\"intensity_scale\":0.25,"));
  assert_true(parse("preset=kitti_second&fields=x,y,z&num_features=3", &request, &error));
  assert_true(parse("preset=kitti_second", &request, &error));
  text = text_over(memory, sizeof memory);
  job_request_write(&request, &text);
  assert_null(strstr(memory, "format"));
}

static void refusals_of_samples(void **state) {
  (void)state;
  static const struct refusal voxels[] = {
      {GRID "&fps=", "fps", ERROR_BAD_PARAMETER},
      {GRID "&fps", "fps", ERROR_BAD_PARAMETER},
      {GRID "&fps=-1", "fps", ERROR_BAD_PARAMETER},
      {GRID "&fps=1,", "fps", ERROR_BAD_PARAMETER},
      {GRID "&fps=1\1", "fps", ERROR_BAD_PARAMETER},
      {GRID "&fps=2147483648", "fps", ERROR_BAD_PARAMETER},
      {GRID "&fps=1&fps=1", "fps", ERROR_BAD_PARAMETER},
      {GRID "&fps=1&start=-1", "start", ERROR_BAD_PARAMETER},
      {GRID "&fps=1&start=1,1", "start", ERROR_BAD_PARAMETER},
      {GRID "&start=0", "start", ERROR_BAD_PARAMETER},
      {GRID "&num_samples=1", "num_samples", ERROR_BAD_PARAMETER},
      {"preset=kitti_second&outputs=sampled_indices", "outputs", ERROR_BAD_PARAMETER},
  };
  static const struct refusal points[] = {
      {"", "num_samples", ERROR_BAD_PARAMETER},
      {"start=0", "num_samples", ERROR_BAD_PARAMETER},
      {"num_samples=1.5", "num_samples", ERROR_BAD_PARAMETER},
      {"num_samples=1,,1", "num_samples", ERROR_BAD_PARAMETER},
      {"num_samples=1&num_samples=1", "num_samples", ERROR_BAD_PARAMETER},
      {"num_samples=1&start=2147483648", "start", ERROR_BAD_PARAMETER},
      {"num_samples=1&preset=kitti_second", "preset", ERROR_BAD_PARAMETER},
      {"preset=nobody&num_samples=1", "preset", ERROR_BAD_PARAMETER},
      {"num_samples=1&feature=mean", "feature", ERROR_BAD_PARAMETER},
      {"num_samples=1&fps=1", "fps", ERROR_BAD_PARAMETER},
      {"num_samples=1&outputs=voxels", "outputs", ERROR_BAD_PARAMETER},
      {"num_samples=1&outputs=sampled_points,voxel_coords", "outputs", ERROR_BAD_PARAMETER},
      {"num_samples=1&outputs=", "outputs", ERROR_BAD_PARAMETER},
  };
  for (size_t i = 0; i < sizeof voxels / sizeof *voxels; i++) check_refusal(VX_VOXELIZE, &voxels[i]);
  for (size_t i = 0; i < sizeof points / sizeof *points; i++) check_refusal(VX_FPS, &points[i]);
}

#define SAMPLES (VX_TENSOR_BIT(VX_SAMPLED_INDICES) | VX_TENSOR_BIT(VX_SAMPLED_POINTS))

static void samples_of_points(void **state) {
  (void)state;
  static struct job_request request;
  struct error error;
  assert_true(parse_for(VX_FPS, "num_samples=7", &request, &error));
  assert_int_equal(request.job.op, VX_FPS);
  assert_true(request.job.params.fps.sampling.enabled);
  assert_int_equal(request.job.params.fps.sampling.start, 0);
  assert_false(request.job.params.fps.sampling.stacked);
  assert_int_equal(request.num_features, 4);
  assert_int_equal(request.job.tensors, SAMPLES);
  assert_true(parse_for(VX_FPS,
                        "num_features=6&dtype=float16&point_counts=9,0,8&num_samples=7,0,3&start=5"
                        "&outputs=sampled_distances&timeout_ms=12",
                        &request, &error));
  assert_int_equal(request.num_features, 6);
  assert_int_equal(request.dtype, VX_FLOAT16);
  assert_int_equal(request.job.params.fps.sampling.start, 5);
  assert_true(request.job.params.fps.sampling.stacked);
  assert_int_equal(request.num_sample_counts, 3);
  assert_int_equal(request.job.tensors, VX_TENSOR_BIT(VX_SAMPLED_DISTANCES));
  assert_int_equal(request.timeout_ms, 12);
}

static void samples_of_voxels(void **state) {
  (void)state;
  static struct job_request request;
  struct error error;
  assert_true(parse(GRID, &request, &error));
  assert_false(request.job.params.voxelize.sampling.enabled);
  assert_true(parse(GRID "&fps=9&start=2", &request, &error));
  assert_true(request.job.params.voxelize.sampling.enabled);
  assert_int_equal(request.job.params.voxelize.sampling.start, 2);
  assert_int_equal(request.job.tensors, SAMPLES | VX_TENSOR_BIT(VX_VOXEL_COORDS) | VX_TENSOR_BIT(VX_VOXEL_NUM_POINTS) |
                                            VX_TENSOR_BIT(VX_VOXEL_FEATURES));
  assert_true(parse(GRID "&fps=0&outputs=voxel_coords,sampled_distances", &request, &error));
  assert_int_equal(request.job.tensors, VX_TENSOR_BIT(VX_VOXEL_COORDS) | VX_TENSOR_BIT(VX_SAMPLED_DISTANCES));
  // The means can be sampled without a cap.
  assert_true(parse("preset=kitti_pointpillar&fps=5&max_points_per_voxel=0&feature=mean", &request, &error));
  assert_true(parse("preset=nuscenes_dynamic_pillar&fps=5", &request, &error));
  assert_int_equal(request.job.tensors, SAMPLES | VX_TENSOR_BIT(VX_VOXEL_COORDS) | VX_TENSOR_BIT(VX_VOXEL_NUM_POINTS) |
                                            VX_TENSOR_BIT(VX_VOXEL_FEATURES));
}

static void numbers_of_samples_follow_the_clouds(void **state) {
  (void)state;
  static const struct {
    const char *query;
    int64_t rows, max_work;
    const char *parameter;  // at fault; NULL: accepted
    int32_t last;           // samples of the last cloud
  } cases[] = {
      {"num_samples=3", 10, 30, NULL, 3},
      {"num_samples=3", 10, 29, "num_samples", 0},
      {"num_samples=3&point_counts=4,3,3", 10, 30, NULL, 3},
      {"num_samples=3,2,1&point_counts=4,3,3", 10, 21, NULL, 1},
      {"num_samples=3,2,1&point_counts=4,3,3", 10, 20, "num_samples", 0},
      {"num_samples=3&point_counts=4,2,4", 10, 99, "num_samples", 0},
      {"num_samples=3,2&point_counts=4,3,3", 10, 99, "num_samples", 0},
      {"num_samples=3,2", 10, 99, "num_samples", 0},
      {"num_samples=11", 10, 999, "num_samples", 0},
      {"num_samples=1&start=10", 10, 99, "start", 0},
      {"num_samples=1&start=9", 10, 99, NULL, 1},
      {"num_samples=9,5&point_counts=5,10&start=10", 15, 999, "num_samples", 0},
      {"num_samples=0&start=9", 0, 1, NULL, 0},
      {"num_samples=1&point_counts=4", 10, 99, "point_counts", 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    static struct job_request request;
    struct error error;
    assert_true(parse_for(VX_FPS, cases[i].query, &request, &error));
    request.max_sampling_work = cases[i].max_work;
    bool taken = job_request_split(&request, cases[i].rows, &error);
    if (taken != !cases[i].parameter) fail_msg("%s: %s", cases[i].query, error.text);
    if (taken) assert_int_equal(request.sample_counts[request.num_clouds - 1], cases[i].last);
    if (!taken) assert_string_equal(error.parameter, cases[i].parameter);
  }
  static struct job_request request;
  struct error error;
  assert_true(parse(GRID "&fps=5&point_counts=1,0", &request, &error));  // the voxels are counted later
  assert_true(job_request_split(&request, 1, &error));
  assert_int_equal(request.sample_counts[1], 5);
  assert_true(parse(GRID "&fps=5,5,5&point_counts=1,0", &request, &error));
  assert_false(job_request_split(&request, 1, &error));
  assert_string_equal(error.parameter, "fps");
}

static void only_sampling_jobs_have_sample_counts(void **state) {
  (void)state;
  static const struct {
    enum vx_op op;
    const char *query;
    bool samples;
  } cases[] = {{VX_VOXELIZE, GRID, false},
               {VX_VOXELIZE, GRID "&fps=2", true},
               {VX_FPS, "num_samples=2", true},
               {VX_TRANSFORM, "matrix=1,0,0,5,0,1,0,6,0,0,1,7,0,0,0,1", false}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    static struct job_request request;
    struct error error;
    if (!parse_for(cases[i].op, cases[i].query, &request, &error)) fail_msg("%s", error.text);
    assert_true(job_request_split(&request, 2, &error));
    struct vx_job job = job_request_job(&request, NULL);
    assert_int_equal(job.sample_counts != NULL, cases[i].samples);
    if (cases[i].op == VX_TRANSFORM) assert_true(job.chain->steps[0].params.transform.matrices[3] == 5);
  }
}

static void the_last_row_of_a_matrix_is_fixed(void **state) {
  (void)state;
  for (int column = 0; column < 4; column++) {
    for (int matrix = 0; matrix < 2; matrix++) {
      char query[256] = "matrix=";
      for (int i = 0; i < 32; i++) {
        bool other = i == 16 * matrix + 12 + column, one = i % 16 % 5 == 0;
        snprintf(query + strlen(query), sizeof query - strlen(query), "%s%d", i ? "," : "", other != one);
      }
      static struct job_request request;
      struct error error;
      assert_false(parse_for(VX_TRANSFORM, query, &request, &error));
      assert_string_equal(error.parameter, "matrix");
      char reason[64];
      snprintf(reason, sizeof reason, "the last row of matrix number %d is ", matrix);
      assert_non_null(strstr(error.text, reason));
    }
  }
}

static void samples_are_shown(void **state) {
  (void)state;
  static const struct {
    enum vx_op op;
    const char *query, *shown;
  } cases[] = {
      {VX_FPS, "num_samples=5",
       "{\"num_samples\":5,\"num_features\":4,\"dtype\":\"float32\",\"start\":0,"
       "\"outputs\":[\"sampled_indices\",\"sampled_points\"],\"timeout_ms\":0}"},
      {VX_FPS, "num_samples=5,0&point_counts=6,7", "{\"num_samples\":[5,0],"},
      {VX_VOXELIZE, GRID "&fps=5&start=3", "\"fps\":5,\"start\":3,"},
      {VX_VOXELIZE, GRID "&fps=5,6&point_counts=1,2", "\"fps\":[5,6],\"start\":0,"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    static struct job_request request;
    struct error error;
    char memory[2048];
    struct text text = text_over(memory, sizeof memory);
    assert_true(parse_for(cases[i].op, cases[i].query, &request, &error));
    job_request_write(&request, &text);
    if (!strstr(memory, cases[i].shown)) fail_msg("%s: %s", cases[i].query, memory);
  }
}

static void a_query_overrides_its_preset(void **state) {
  (void)state;
  static struct job_request request;
  struct error error;
  assert_true(parse("max_voxels=7&preset=kitti_pointpillar", &request, &error));
  assert_int_equal(request.job.params.voxelize.max_voxels, 7);
  assert_int_equal(request.job.params.voxelize.max_points_per_voxel, 32);
  assert_string_equal(request.preset, "kitti_pointpillar");
  assert_true(request.job.tensors & VX_TENSOR_BIT(VX_PILLAR_FEATURES));
}

static void other_features_than_the_presets_bring_their_tensors(void **state) {
  (void)state;
  static struct job_request request;
  struct error error;
  assert_true(parse("preset=nuscenes_dynamic_pillar", &request, &error));
  assert_true(request.job.tensors & VX_TENSOR_BIT(VX_POINT_VOXEL_IDS));
  assert_true(parse("preset=nuscenes_dynamic_pillar&feature=points&max_points_per_voxel=4", &request, &error));
  assert_int_equal(request.job.tensors,
                   VX_TENSOR_BIT(VX_VOXEL_COORDS) | VX_TENSOR_BIT(VX_VOXEL_NUM_POINTS) | VX_TENSOR_BIT(VX_VOXELS));
}

static void clouds_must_add_up(void **state) {
  (void)state;
  static struct job_request request;
  struct error error;
  assert_true(parse(GRID "&point_counts=2147483647,2147483647", &request, &error));
  assert_false(job_request_split(&request, -2, &error));
  assert_int_equal(error.kind, ERROR_BAD_BODY);
  assert_true(parse(GRID "&point_counts=1,2", &request, &error));
  assert_true(job_request_split(&request, 3, &error));
  assert_true(parse(GRID, &request, &error));
  assert_true(job_request_split(&request, 3, &error));
  assert_int_equal(request.num_clouds, 1);
  assert_int_equal(request.point_counts[0], 3);
}

static void as_many_clouds_as_allowed(void **state) {
  (void)state;
  static struct job_request request;
  struct error error;
  char query[8192] = GRID "&point_counts=1";
  for (int i = 1; i < VX_MAX_CLOUDS; i++) strcat(query, ",1");
  assert_true(parse(query, &request, &error));
  assert_int_equal(request.num_clouds, VX_MAX_CLOUDS);
  strcat(query, ",1");
  assert_false(parse(query, &request, &error));
  assert_string_equal(error.parameter, "point_counts");
}

static void lists_may_find_no_memory(void **state) {
  (void)state;
  static struct job_request request;
  struct error error;
  assert_true(parse(GRID, &request, &error));
  request.pool.failed = true;
  assert_false(job_request_set(&request, "point_counts", 12, "1", 1, &error));
  assert_int_equal(error.kind, ERROR_MEMORY_FULL);
  assert_false(job_request_finish(&request, &error));
  assert_int_equal(error.kind, ERROR_MEMORY_FULL);
  assert_true(parse(GRID, &request, &error));
}

static void a_parameter_that_the_operation_does_not_have_is_not_given(void **state) {
  (void)state;
  static struct job_request nms;
  struct error reason;
  job_request_init(&nms, VX_NMS);
  assert_false(job_request_is_given(&nms, "format"));
  memset(nms.given, true, sizeof nms.given);
  assert_false(job_request_is_given(&nms, "format"));
  assert_true(job_request_is_given(&nms, "timeout_ms"));
  assert_false(job_request_set(&nms, "format", 6, "pcd", 3, &reason));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(lists_may_find_no_memory),
      cmocka_unit_test(a_parameter_that_the_operation_does_not_have_is_not_given),
      cmocka_unit_test(defaults_hold),
      cmocka_unit_test(every_value_is_read),
      cmocka_unit_test(a_word_with_number_0_replaces_that_of_a_preset),
      cmocka_unit_test(refusals_name_the_parameter),
      cmocka_unit_test(refusals_of_columns),
      cmocka_unit_test(columns_are_named),
      cmocka_unit_test(refusals_of_samples),
      cmocka_unit_test(samples_of_points),
      cmocka_unit_test(samples_of_voxels),
      cmocka_unit_test(numbers_of_samples_follow_the_clouds),
      cmocka_unit_test(only_sampling_jobs_have_sample_counts),
      cmocka_unit_test(the_last_row_of_a_matrix_is_fixed),
      cmocka_unit_test(samples_are_shown),
      cmocka_unit_test(a_query_overrides_its_preset),
      cmocka_unit_test(other_features_than_the_presets_bring_their_tensors),
      cmocka_unit_test(clouds_must_add_up),
      cmocka_unit_test(as_many_clouds_as_allowed),
  };
  return cmocka_run_group_tests(tests, load, unload);
}
