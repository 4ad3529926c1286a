// The answer's file: its header fits the bytes reserved for it, with any times and any request id.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "api/presets.h"
#include "api/wire/safetensors.h"

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

// The tensors are unchanged, and the bytes between them are zero.
static void check_behind(const struct vx_layout *layout, const char *tensors) {
  for (size_t at = 0; at <= layout->bytes; at++) {
    bool inside = at == layout->bytes;
    for (int tensor = 0; tensor < VX_TENSOR_COUNT; tensor++)
      if (layout->tensors & VX_TENSOR_BIT(tensor))
        inside = inside || (at >= layout->offset[tensor] && at - layout->offset[tensor] < layout->shape[tensor].bytes);
    assert_int_equal(tensors[at], inside ? '#' : 0);
  }
}

// A header has the same bytes if answer_keep_facts wrote a part of the metadata early.
static void check_kept(struct answer *answer, const struct vx_layout *layout, const char *block, size_t reserve) {
  struct pool pool = {0};
  char *kept = malloc(reserve);
  assert_non_null(kept);
  for (int round = 0; round < 3; round++) {
    if (round > 0) answer_begin_facts(answer, &pool);
    assert_int_equal(answer_header_reserve(answer, layout), reserve);
    if (round == 2) answer->facts.capacity = answer->facts.length + 1;  // too small for the rest
    answer_keep_facts(answer, &pool);
    assert_true(answer->facts_kept && text_complete(&answer->facts));
    assert_int_equal(answer_header_reserve(answer, layout), reserve);
    assert_true(answer_frame_write(answer, layout, kept, reserve, NULL));
    assert_memory_equal(kept, block, reserve);
  }
  free(kept);
  pool_release(&pool);
}

// The parsed header of an answer with these sizes; the caller owns it. Checks the frame around the header.
static json_t *header_of_request(const struct job_request *request, const char *id, const struct vx_sizes *sizes,
                                 int64_t ns) {
  int32_t points[2] = {(int32_t)sizes->rows, 0}, rows[2] = {(int32_t)sizes->voxels, 0};
  struct vx_job job = job_request_job(request, NULL);
  job.num_clouds = (int32_t)sizes->clouds;
  job.point_counts = points;
  job.row_counts = rows;
  job.counts = (struct vx_counts){.received = sizes->rows, .sampled = sizes->samples};
  for (int stage = 0; stage < VX_STAGE_COUNT; stage++) job.stage_ns[stage] = ns;
  struct answer answer = {.request_id = id,
                          .backend = "cpu",
                          .device = "a \"device\"",
                          .request = request,
                          .job = &job,
                          .inspected = {.stripped = true, .columns = 5}};
  struct vx_layout layout;
  struct error error;
  struct vx_sizes all = vx_sizes_of(&job);
  all.rows = sizes->rows;
  all.voxels = sizes->voxels;
  assert_int_equal(vx_layout_of(job.tensors, &all, &layout, &error), VX_OK);

  size_t reserve = answer_header_reserve(&answer, &layout);
  assert_int_equal(reserve % VX_TENSOR_ALIGNMENT, 0);
  answer.receive_ns = answer.queue_ns = answer.total_ns = ns;
  char *block = malloc(reserve + layout.bytes + 1);
  assert_non_null(block);
  memset(block, '#', reserve + layout.bytes + 1);
  assert_false(answer_frame_write(&answer, &layout, block, VX_TENSOR_ALIGNMENT, NULL));
  assert_true(answer_frame_write(&answer, &layout, block, reserve, block + reserve));
  check_behind(&layout, block + reserve);
  check_kept(&answer, &layout, block, reserve);
  uint64_t length = 0;
  for (int i = 7; i >= 0; i--) length = length << 8 | (unsigned char)block[i];
  assert_int_equal(length + 8, reserve);
  json_error_t where;
  json_t *header = json_loadb(block + 8, length, JSON_REJECT_DUPLICATES, &where);
  if (!header) fail_msg("%s: %s", where.text, block + 8);
  free(block);
  return header;
}

static json_t *header_of(const char *preset, const char *id, int64_t voxels, int64_t ns) {
  struct vx_sizes sizes = {.rows = 1000, .voxels = voxels, .clouds = 1};
  return header_of_request(presets_request(presets_find(presets, preset)), id, &sizes, ns);
}

// The caller owns the metadata.
static json_t *metadata_in(const json_t *header) {
  const char *text = json_string_value(json_object_get(json_object_get(header, "__metadata__"), "voxeld"));
  json_error_t where;
  json_t *metadata = json_loads(text, JSON_REJECT_DUPLICATES, &where);
  if (!metadata) fail_msg("%s: %s", where.text, text);
  return metadata;
}

// A request for samples of two clouds, the second empty. `voxels`: samples of voxels.
static struct job_request sampling_request(bool voxels, bool stacked) {
  static const char *const values[][2] = {{"point_cloud_range", "0,0,0,4,4,4"}, {"voxel_size", "1,1,1"}};
  static struct job_request request;
  struct error error;
  job_request_init(&request, voxels ? VX_VOXELIZE : VX_FPS);
  for (size_t i = 0; voxels && i < 2; i++)
    assert_true(
        job_request_set(&request, values[i][0], strlen(values[i][0]), values[i][1], strlen(values[i][1]), &error));
  const char *name = voxels ? "fps" : "num_samples", *number = stacked ? "6,0" : "0";
  assert_true(job_request_set(&request, "point_counts", 12, "50,0", 4, &error));
  assert_true(job_request_set(&request, name, strlen(name), number, strlen(number), &error));
  assert_true(job_request_finish(&request, &error) && job_request_split(&request, 50, &error));
  return request;
}

static void the_metadata_counts_samples(void **state) {
  (void)state;
  for (int kind = 0; kind < 4; kind++) {
    bool voxels = kind & 1, stacked = kind & 2;
    struct job_request request = sampling_request(voxels, stacked);
    struct vx_sizes sizes = {.rows = 50, .voxels = voxels ? 20 : 0, .clouds = 2, .samples = stacked ? 6 : 0};
    json_t *header = header_of_request(&request, "id", &sizes, 1000), *metadata = metadata_in(header);
    const json_t *batch = json_object_get(metadata, "batch"), *samples = json_object_get(batch, "samples");
    assert_int_equal(json_array_size(samples), 2);
    assert_int_equal(json_integer_value(json_array_get(samples, 0)), sizes.samples);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(metadata, "samples"), "chosen")),
                     sizes.samples);
    assert_int_equal(json_object_size(json_object_get(metadata, "voxels")), voxels ? 3 : 0);
    assert_int_equal(json_object_get(metadata, "grid_size") != NULL, voxels);
    assert_int_equal(json_object_get(batch, "voxels") != NULL, voxels);
    assert_int_equal(json_object_size(json_object_get(metadata, "points")), voxels ? 7 : 3);
    const json_t *shape = json_object_get(json_object_get(header, "sampled_points"), "shape");
    assert_int_equal(json_array_size(shape), stacked ? 2 : 3);
    assert_int_equal(json_integer_value(json_array_get(shape, 0)), stacked ? 6 : 2);
    json_decref(metadata);
    json_decref(header);
  }
}

static void without_samples_the_metadata_does_not_count_them(void **state) {
  (void)state;
  json_t *header = header_of("kitti_second", "id", 5, 1000), *metadata = metadata_in(header);
  assert_null(json_object_get(metadata, "samples"));
  assert_null(json_object_get(json_object_get(metadata, "batch"), "samples"));
  json_decref(metadata);
  json_decref(header);
}

// The end of this grid exceeds the largest float32, but JSON has no infinity.
static void effective_range_is_finite(void **state) {
  (void)state;
  struct job_request request = *presets_request(presets_find(presets, "kitti_second"));
  for (int a = 0; a < 3; a++) {
    request.job.params.voxelize.range_min[a] = 0;
    request.job.params.voxelize.range_max[a] = 3.4e38f;
    request.job.params.voxelize.voxel_size[a] = 0.5e38f;
  }
  struct vx_sizes sizes = {.rows = 9, .voxels = 1, .clouds = 1};
  json_t *header = header_of_request(&request, "id", &sizes, 1000), *metadata = metadata_in(header);
  assert_true(json_real_value(json_array_get(json_object_get(metadata, "effective_range"), 5)) > 3.4e38);
  json_decref(metadata);
  json_decref(header);
}

static void header_fits_at_any_time(void **state) {
  (void)state;
  static const int64_t times[] = {0, 1, 999, 123456789, INT64_MAX};
  for (size_t i = 0; i < sizeof times / sizeof *times; i++) json_decref(header_of("kitti_second", "id", 5, times[i]));
}

static void tensors_follow_without_holes_on_64_bytes(void **state) {
  (void)state;
  for (int64_t voxels = 0; voxels < 40; voxels++) {
    json_t *header = header_of("nuscenes_dynamic_pillar", "id", voxels, 5), *value;
    const char *name;
    json_int_t end = 0, total = 0, most = 0;
    json_object_foreach(header, name, value) {
      if (strcmp(name, "__metadata__") == 0) continue;
      json_t *offsets = json_object_get(value, "data_offsets");
      json_int_t from = json_integer_value(json_array_get(offsets, 0)),
                 to = json_integer_value(json_array_get(offsets, 1));
      if (strncmp(name, "_padding_", 9) != 0) assert_int_equal(from % VX_TENSOR_ALIGNMENT, 0);
      assert_true(from <= to);
      total += to - from;
      most = to > most ? to : most;
      end = to;
    }
    assert_int_equal(total, most);  // no holes and no overlap
    assert_int_equal(end, most);
    json_decref(header);
  }
}

static void metadata_is_one_json_string(void **state) {
  (void)state;
  json_t *header = header_of("kitti_pointpillar", "my-id", 7, 1500);
  json_t *metadata = metadata_in(header);
  assert_string_equal(json_string_value(json_object_get(metadata, "request_id")), "my-id");
  assert_string_equal(json_string_value(json_object_get(metadata, "device")), "a \"device\"");
  assert_true(json_real_value(json_object_get(json_object_get(metadata, "timing_us"), "voxelize")) == 1.5);
  json_t *grid = json_object_get(metadata, "grid_size");
  assert_int_equal(json_integer_value(json_array_get(grid, 0)), 432);
  assert_int_equal(json_integer_value(json_array_get(grid, 1)), 496);
  assert_int_equal(json_integer_value(json_array_get(grid, 2)), 1);
  assert_int_equal(json_array_size(json_object_get(metadata, "warnings")), 2);
  json_decref(metadata);
  json_decref(header);
}

static void server_timing_is_in_milliseconds(void **state) {
  (void)state;
  struct vx_job job = {.stage_ns = {0}};
  struct answer answer = {.job = &job, .receive_ns = 1500000, .total_ns = 2000};
  char memory[512];
  struct text text = text_over(memory, sizeof memory);
  answer_server_timing(&answer, &text);
  assert_non_null(strstr(memory, "receive;dur=1.5000, queue;dur=0.0000, copy_in;dur="));
  assert_non_null(strstr(memory, ", total;dur=0.0020"));
  assert_null(strstr(memory, "encode"));
  answer.encode_ns = 3000;
  text = text_over(memory, sizeof memory);
  answer_server_timing(&answer, &text);
  assert_non_null(strstr(memory, ", encode;dur=0.0030, total;dur=0.0020"));
}

static void the_longest_server_timing_fits(void **state) {
  (void)state;
  for (enum vx_op op = 0; op < VX_OPS; op++) {
    struct vx_job job = {.op = op};
    for (int stage = 0; stage < VX_STAGE_COUNT; stage++) job.stage_ns[stage] = INT64_MIN;
    struct answer answer = {.job = &job, .receive_ns = INT64_MIN, .encode_ns = INT64_MAX, .total_ns = INT64_MIN};
    char memory[SERVER_TIMING_SIZE];
    struct text text = text_over(memory, sizeof memory);
    answer_server_timing(&answer, &text);
    assert_true(text_complete(&text));
  }
}

// The metadata of a job over two sweeps; the caller owns it.
static json_t *metadata_of_sweeps(enum vx_op op) {
  static const int32_t points[] = {7, 4}, all = 11;
  int32_t rows = 3;
  struct vx_counts counts[] = {{.received = 7, .kept = 3, .over_voxel_cap = 4},
                               {.received = 4, .not_finite = 1, .over_max_voxels = 3}};
  const struct join_report joined = {
      .count = 2,
      .wanted = 2,
      .sweeps = {{.points = {9, 2, 7, 0}, .sent = true}, {.points = {4, 0, 4, 1}, .time = -1, .age = 1}}};
  struct job_request request = sampling_request(op == VX_VOXELIZE, false);
  struct vx_job job = job_request_job(&request, NULL);
  strcpy(request.stream.name, "roof");
  job.num_clouds = 1;
  job.point_counts = &all;
  job.row_counts = &rows;
  if (vx_operations[op].sectioned) job.sections = (struct vx_sections){2, points, counts};
  struct answer answer = {.request_id = "id",
                          .backend = "cpu",
                          .device = "d",
                          .request = &request,
                          .job = &job,
                          .inspected = {.joined = &joined}};
  char memory[8192];
  struct text text = text_over(memory, sizeof memory);
  answer_metadata(&answer, false, &text);
  json_error_t where;
  json_t *metadata = json_loads(memory, JSON_REJECT_DUPLICATES, &where);
  if (!metadata) fail_msg("%s: %s", where.text, memory);
  return metadata;
}

// A sampling drops only points that are not finite; a voxelization has more fates.
static void each_sweep_has_the_fates_of_its_operation(void **state) {
  (void)state;
  static const char *const expected[][2] = {
      {"{\"received\":9,\"removed_close\":2,\"joined\":7,\"kept\":3,\"not_finite\":0,\"out_of_range\":0,"
       "\"over_max_points_per_voxel\":4,\"over_max_voxels\":0,\"block_filtered\":0}",
       "{\"received\":4,\"removed_close\":0,\"joined\":4,\"kept\":0,\"not_finite\":1,\"out_of_range\":0,"
       "\"over_max_points_per_voxel\":0,\"over_max_voxels\":3,\"block_filtered\":0}"},
      {"{\"received\":9,\"removed_close\":2,\"joined\":7,\"kept\":7,\"not_finite\":0}",
       "{\"received\":4,\"removed_close\":0,\"joined\":4,\"kept\":3,\"not_finite\":1}"}};
  for (int kind = 0; kind < 2; kind++) {
    json_t *metadata = metadata_of_sweeps(kind == 0 ? VX_VOXELIZE : VX_FPS);
    const json_t *sweeps = json_object_get(json_object_get(metadata, "stream"), "sweeps");
    for (size_t i = 0; i < 2; i++) {
      char *points = json_dumps(json_object_get(json_array_get(sweeps, i), "points"), JSON_COMPACT);
      assert_string_equal(points, expected[kind][i]);
      free(points);
    }
    json_decref(metadata);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(header_fits_at_any_time),
      cmocka_unit_test(tensors_follow_without_holes_on_64_bytes),
      cmocka_unit_test(metadata_is_one_json_string),
      cmocka_unit_test(server_timing_is_in_milliseconds),
      cmocka_unit_test(the_longest_server_timing_fits),
      cmocka_unit_test(the_metadata_counts_samples),
      cmocka_unit_test(without_samples_the_metadata_does_not_count_them),
      cmocka_unit_test(effective_range_is_finite),
      cmocka_unit_test(each_sweep_has_the_fates_of_its_operation),
  };
  return cmocka_run_group_tests(tests, load, unload);
}
