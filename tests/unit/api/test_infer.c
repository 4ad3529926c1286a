// Bodies of inference requests. Every body is read from memory of its exact size, so that a sanitizer sees a read past
// the end. fault.infer and oracle.infer ask a daemon.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/wire/infer_answer.h"
#include "api/wire/infer_inputs.h"
#include "api/wire/wire.h"

static struct infer infer;
static struct infer_body body;
static struct job_request request;
static struct error error;
static char *bytes;  // the body

// Shared memory whose bytes are all 1.
static bool read_shared(void *cls, const struct region_ref *ref, char *out, struct error *reason) {
  (void)cls, (void)reason;
  memset(out, 1, ref->bytes);
  return true;
}
static const struct infer_memory shared = {read_shared, NULL, NULL};

// The body is `json` followed by `size` bytes of tensors. `tensors` NULL: the whole body is JSON.
static bool read_by(const struct infer *by, const char *json, const void *tensors, size_t size) {
  size_t head = strlen(json);
  free(bytes);
  bytes = malloc(head + size + !(head + size));
  assert_non_null(bytes);
  memcpy(bytes, json, head);
  if (size) memcpy(bytes + head, tensors, size);
  infer = *by;
  if (tensors) infer.head_bytes = (int64_t)head;
  error = (struct error){.kind = ERROR_NONE};
  bool good = infer_read(&body, bytes, head + size, &shared, &infer, &request, &error);
  assert_int_equal(good, error.kind == ERROR_NONE);
  return good;
}

static bool read_to(enum vx_op op, const char *json, const void *tensors, size_t size) {
  job_request_init(&request, op);
  return read_by(&(struct infer){.model = vx_operations[op].name, .version = "1", .head_bytes = -1}, json, tensors,
                 size);
}

static void reads(enum vx_op op, const char *json, const void *tensors, size_t size) {
  if (!read_to(op, json, tensors, size)) fail_msg("%s: %s", json, error.text);
}

static void refuses(const char *json, const void *tensors, size_t size, const char *reason) {
  if (read_to(VX_TRANSFORM, json, tensors, size)) fail_msg("taken: %s", json);
  if (!strstr(error.text, reason)) fail_msg("%s: %s", json, error.text);
  infer_end(&body);
}

static const struct infer_input *points(void) { return &body.inputs.list[VX_POINTS]; }

static int forget(void **state) {
  (void)state;
  free(bytes);
  bytes = NULL;
  return 0;
}

#define POINTS "{\"name\":\"points\",\"shape\":[2,4],\"datatype\":\"FP32\",\"parameters\":{\"binary_data_size\":32}}"
#define COUNTS                                                                                                         \
  "{\"name\":\"point_counts\",\"shape\":[2],\"datatype\":\"INT32\",\"parameters\":{\"binary_data_size\":8}}"
#define NUMBERS(shape, data)                                                                                           \
  "{\"inputs\":[{\"name\":\"points\",\"shape\":" shape ",\"datatype\":\"FP32\",\"data\":" data "}]}"

#define INPUT "{\"name\":\"points\",\"shape\":[2,4],\"datatype\":\"FP32\",\"data\":[1,2,3,4,5,6,7,8]}"
#define FLAT_COUNTS "{\"name\":\"point_counts\",\"shape\":[1,2],\"datatype\":\"INT32\",\"data\":[1,1]}"
#define COUNTED(data)                                                                                                  \
  "{\"inputs\":[" INPUT ",{\"name\":\"point_counts\",\"shape\":[2],\"datatype\":\"INT32\",\"data\":" data "}]}"
#define OUTPUT(name) "{\"inputs\":[" INPUT "],\"outputs\":[{\"name\":\"" name "\"}]}"

static const float two_points[8] = {1, 2, 3, 4, 5, 6, 7, 8};

// ---- good bodies ----------------------------------------------------------------------------------------------------

static void bytes_stay_where_they_are(void **state) {
  (void)state;
  static const char json[] = "{\"inputs\":[" POINTS "]}";
  reads(VX_TRANSFORM, json, two_points, sizeof two_points);
  assert_ptr_equal(points()->binary, bytes + strlen(json));
  assert_null(points()->json);
  assert_int_equal(points()->tensor.dims[0], 2);
  assert_int_equal(points()->tensor.dims[1], 4);
  assert_int_equal(request.num_features, 4);
  assert_int_equal(request.dtype, VX_FLOAT32);
  assert_int_equal(request.job.tensors, VX_TENSOR_BIT(VX_LEFT_POINTS) | VX_TENSOR_BIT(VX_POINT_INDICES));
  assert_int_equal(infer.binary, 0);
  assert_ptr_equal(infer_answer_kind(&infer, &request), &infer_json);
  assert_string_equal(infer.id, "");
  infer_end(&body);
}

static void bytes_are_taken_in_the_order_of_the_inputs(void **state) {
  (void)state;
  static const char json[] = "{\"inputs\":[" COUNTS "," POINTS "],\"parameters\":{\"binary_data_output\":true}}";
  static const int32_t counts[2] = {2, 0};
  char tensors[sizeof counts + sizeof two_points];
  memcpy(tensors, counts, sizeof counts);
  memcpy(tensors + sizeof counts, two_points, sizeof two_points);
  reads(VX_TRANSFORM, json, tensors, sizeof tensors);
  assert_ptr_equal(points()->binary, bytes + strlen(json) + sizeof counts);
  assert_int_equal(request.num_clouds, 2);
  assert_int_equal(request.point_counts[0], 2);
  assert_int_equal(request.point_counts[1], 0);
  assert_ptr_equal(infer_answer_kind(&infer, &request), &infer_binary);
  assert_true(infer.binary & VX_TENSOR_BIT(VX_TENSOR_COUNT - 1));  // the last tensor stands for all
  infer_end(&body);
}

static void parameters_are_those_of_a_query(void **state) {
  (void)state;
  static const char json[] =
      "{\"id\":\"a\",\"inputs\":[" POINTS "],\"parameters\":{\"num_samples\":2,\"start\":\"1\",\"timeout\":1500,"
      "\"priority\":3,\"headers\":{},\"sequence_start\":true},"
      "\"outputs\":[{\"name\":\"sampled_points\",\"parameters\":{\"binary_data\":true}},{\"name\":\"sampled_indices\"}]"
      "}";
  reads(VX_FPS, json, two_points, sizeof two_points);
  assert_string_equal(infer.id, "a");
  assert_int_equal(request.sample_counts[0], 2);
  assert_int_equal(request.timeout_ms, 2);
  assert_int_equal(request.job.tensors, VX_TENSOR_BIT(VX_SAMPLED_POINTS) | VX_TENSOR_BIT(VX_SAMPLED_INDICES));
  assert_int_equal(infer.binary, VX_TENSOR_BIT(VX_SAMPLED_POINTS));
  infer_end(&body);
  reads(VX_VOXELIZE,
        "{\"inputs\":[" POINTS "],\"parameters\":{\"point_cloud_range\":[0,0,0,1e1,10,10.0],\"voxel_size\":\"1,1,1\"}}",
        two_points, sizeof two_points);
  assert_true(request.job.params.voxelize.range_max[0] == 10 && request.job.params.voxelize.range_max[2] == 10);
  infer_end(&body);
}

static void a_body_without_json_is_rows_of_the_model(void **state) {
  (void)state;
  job_request_init(&request, VX_TRANSFORM);
  assert_true(job_request_set(&request, "num_features", 12, "5", 1, &error));
  const struct infer raw = {.model = "m", .version = "1", .preset = true};
  assert_true(read_by(&raw, "", (float[10]){0}, 10 * sizeof(float)));
  assert_int_equal(points()->tensor.dims[0], 2);
  assert_int_equal(points()->tensor.dims[1], 5);
  assert_null(body.json.root);
  assert_ptr_equal(infer_answer_kind(&infer, &request), &infer_binary);
  assert_true(infer.binary & VX_TENSOR_BIT(VX_TENSOR_COUNT - 1));
  infer_end(&body);
  assert_false(read_by(&raw, "", (float[8]){0}, 8 * sizeof(float)));
  assert_non_null(strstr(error.text, "a multiple of 20"));
  infer_end(&body);
}

static void points_may_be_json(void **state) {
  (void)state;
  static const char *const lists[] = {NUMBERS("[2,4]", "[1,2,3,4,5,6,7.0,8e0]"),
                                      NUMBERS("[2,4]", "[[1,2,3,4],[5,6,7,8]]")};
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
    float rows[8];
    reads(VX_TRANSFORM, lists[i], NULL, 0);
    assert_null(points()->binary);
    assert_true(infer_input_copy(points(), "points", &shared, (char *)rows, &error));
    assert_memory_equal(rows, two_points, sizeof rows);
    infer_end(&body);
  }
}

static void null_is_nan(void **state) {
  (void)state;
  float row[4];
  reads(VX_TRANSFORM, NUMBERS("[1,4]", "[1,2,3,null]"), NULL, 0);
  assert_true(infer_input_copy(points(), "points", &shared, (char *)row, &error));
  assert_true(row[2] == 3 && isnan(row[3]));
  infer_end(&body);
}

static void points_as_json_must_be_as_many_as_the_shape_says(void **state) {
  (void)state;
  static const char *const lists[] = {NUMBERS("[2,4]", "[1,2,3,4,5,6,7]"),
                                      NUMBERS("[2,4]", "[1,2,3,4,5,6,7,8,9]"),
                                      NUMBERS("[2,4]", "[[[1,2,3,4]]]"),
                                      NUMBERS("[1,4]", "[1,2,3,\"4\"]"),
                                      NUMBERS("[2,4]", "[[1,2,3],[4,5],[],6,7,8]"),
                                      NUMBERS("[1,4]", "{}"),
                                      NUMBERS("[2,4]", "[[1,2,3,4],[5,6]]"),
                                      NUMBERS("[0,4]", "[1]")};
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
    float *rows = malloc(8 * sizeof *rows);
    reads(VX_TRANSFORM, lists[i], NULL, 0);
    if (infer_input_copy(points(), "points", &shared, (char *)rows, &error)) fail_msg("taken: %s", lists[i]);
    assert_int_equal(error.kind, ERROR_BAD_BODY);
    infer_end(&body);
    free(rows);
  }
}

// As KServe's client sends an empty tensor.
static void a_null_without_bytes_is_no_data(void **state) {
  (void)state;
  reads(VX_TRANSFORM,
        "{\"inputs\":[{\"name\":\"points\",\"shape\":[0,4],\"datatype\":\"FP32\",\"data\":null,"
        "\"parameters\":{\"binary_data_size\":0}}]}",
        NULL, 0);
  assert_null(points()->json);
  assert_int_equal(points()->tensor.dims[0], 0);
  infer_end(&body);
}

#define BOXES "{\"name\":\"boxes\",\"shape\":[2,7],\"datatype\":\"FP32\",\"parameters\":{\"binary_data_size\":56}}"
#define SCORES "{\"name\":\"scores\",\"shape\":[2],\"datatype\":\"FP32\",\"data\":[0.5,1]}"
#define LABELS(data) "{\"name\":\"labels\",\"shape\":[2],\"datatype\":\"INT32\",\"data\":" data "}"

// An operation that does not take points. One input comes as bytes, the others as JSON.
static void several_inputs_are_bound_by_name(void **state) {
  (void)state;
  static const char json[] = "{\"inputs\":[" LABELS(
      "[3,-1]") "," BOXES "," SCORES ",{\"name\":\"box_counts\",\"shape\":[2],\"datatype\":\"INT32\",\"data\":[2,0]}]}";
  static const float boxes[14] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14}, scores[2] = {0.5F, 1};
  static const int32_t labels[2] = {3, -1};
  _Alignas(VX_TENSOR_ALIGNMENT) char values[4 * VX_TENSOR_ALIGNMENT];
  reads(VX_NMS, json, boxes, sizeof boxes);
  assert_int_equal(request.num_clouds, 2);
  assert_int_equal(request.point_counts[0], 2);
  assert_false(infer_inputs_bind(&body.inputs, &request));
  assert_true(infer_inputs_bytes(&body.inputs) <= sizeof values);
  assert_true(infer_inputs_copy(&body.inputs, &shared, values, &request, &error));
  const struct vx_input *inputs = request.job.inputs;
  assert_memory_equal(inputs[0].data, boxes, sizeof boxes);
  assert_memory_equal(inputs[1].data, scores, sizeof scores);
  assert_memory_equal(inputs[2].data, labels, sizeof labels);
  assert_int_equal(inputs[2].dtype, VX_INT32);
  assert_true(job_request_split(&request, 2, &error));
  infer_end(&body);
}

// Aligned bytes are used in place.
static void bytes_of_several_inputs_stay_where_they_are(void **state) {
  (void)state;
  static const char json[] = "{\"inputs\":[" BOXES ",{\"name\":\"scores\",\"shape\":[2],\"datatype\":\"FP32\","
                             "\"parameters\":{\"binary_data_size\":8}}]}  ";
  _Static_assert((sizeof json - 1) % sizeof(float) == 0, "the bytes begin at a multiple of four");
  static const float values[16] = {1};
  reads(VX_NMS, json, values, sizeof values);
  assert_true(infer_inputs_bind(&body.inputs, &request));
  assert_ptr_equal(request.job.inputs[0].data, bytes + strlen(json));
  assert_ptr_equal(request.job.inputs[1].data, bytes + strlen(json) + 56);
  infer_end(&body);
}

static void whole_numbers_must_be_whole_and_fit(void **state) {
  (void)state;
  static const char *const wrong[] = {LABELS("[1,1.0]"), LABELS("[1,2147483648]"), LABELS("[1,true]"), LABELS("[1]")};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    char json[512], values[4 * VX_TENSOR_ALIGNMENT];
    snprintf(json, sizeof json, "{\"inputs\":[" BOXES "," SCORES ",%s]}", wrong[i]);
    reads(VX_NMS, json, (float[14]){0}, 14 * sizeof(float));
    assert_false(infer_inputs_copy(&body.inputs, &shared, values, &request, &error));
    assert_non_null(strstr(error.text, "the data of labels is not a list of 2 whole numbers"));
    infer_end(&body);
  }
}

static void sizes_do_not_overflow(void **state) {
  (void)state;
  reads(VX_TRANSFORM, NUMBERS("[1152921504606846975,4]", "[]"), NULL, 0);
  assert_int_equal(infer_inputs_bytes(&body.inputs), SIZE_MAX);
  infer_end(&body);
}

// ---- bad bodies -----------------------------------------------------------------------------------------------------

static void every_cut_body_is_refused(void **state) {
  (void)state;
  static const char json[] = "{\"id\":\"b\",\"inputs\":[" POINTS "],\"parameters\":{\"binary_data_output\":true}}";
  char cut[sizeof json];
  for (size_t length = 0; length < sizeof json - 1; length++) {
    snprintf(cut, sizeof cut, "%.*s", (int)length, json);
    if (length) refuses(cut, two_points, sizeof two_points, "the body's JSON, line 1");
    refuses(cut, NULL, 0, "the body's JSON, line 1");
  }
  for (size_t size = 0; size < sizeof two_points; size++) refuses(json, two_points, size, "bytes are left");
}

static void json_of_another_form_is_refused(void **state) {
  (void)state;
  static const char *const bodies[][2] = {
      {"[]", "is not an object"},
      {"{\"inputs\":[],\"inputs\":[]}", "duplicate"},
      {"{\"id\":1}", "id is not a string"},
      {"{}", "no list of inputs"},
      {"{\"inputs\":[[]]}", "there is no input ''"},
      {NUMBERS("[1,-4]", "[]"), "not a whole number of 0 or more"},
      {NUMBERS("[9223372036854775807,4]", "[]"), "too large"},
      {NUMBERS("[1,65]", "[]"), "C from 3 to 64"},
      {"{\"inputs\":[" POINTS "]}", "only 0 bytes are left"},
      {"{\"parameters\":{\"a\":{}}}", "not a string, number or boolean"},
      {COUNTED("[0.5,2]"), "whole numbers"},
      {COUNTED("[null,2]"), "whole numbers"},
      {COUNTED("[\"0\",2]"), "whole numbers"},
      {OUTPUT("points,point_indices"), "one name for each output"},
      {"{\"inputs\":[" INPUT "," INPUT "]}", "there are two inputs points"},
      {"{\"inputs\":[" INPUT "," FLAT_COUNTS "]}", "point_counts does not have the shape [B] with B up to 1024"},
      {"{\"inputs\":[" INPUT "],\"outputs\":5}", "outputs is not a list"},
      {"{\"parameters\":{\"triton_a\":1},\"inputs\":[" POINTS "]}", ""}};
  for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) refuses(bodies[i][0], NULL, 0, bodies[i][1]);
}

static void missing_inputs_are_refused(void **state) {
  (void)state;
  static const struct {
    enum vx_op op;
    const char *json, *reason;
  } wrong[] = {
      {VX_NMS, "{\"inputs\":[" SCORES "]}", "the input boxes is missing"},
      {VX_NMS, "{\"inputs\":[" POINTS "]}", "no input 'points'; allowed: boxes, scores, labels, box_counts"},
      {VX_DECODE, "{\"inputs\":[" SCORES "]}", "allowed: cls_preds, box_preds, dir_cls_preds"},
      {VX_TRANSFORM, "{\"inputs\":[]}", "the input points is missing"},
  };
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    assert_false(read_to(wrong[i].op, wrong[i].json, NULL, 0));
    if (!strstr(error.text, wrong[i].reason)) fail_msg("%s: %s", wrong[i].json, error.text);
    infer_end(&body);
  }
  job_request_init(&request, VX_NMS);
  assert_false(read_by(&(struct infer){.model = "nms"}, "", "1234", 4));
  assert_non_null(strstr(error.text, "a body without JSON is the input points, which nms does not have"));
  infer_end(&body);
}

static void a_head_longer_than_its_body_is_refused(void **state) {
  (void)state;
  job_request_init(&request, VX_TRANSFORM);
  assert_false(read_by(&(struct infer){.model = "transform", .head_bytes = 3}, "{}", NULL, 0));
  assert_non_null(strstr(error.text, "is 3; the body has 2 bytes"));
  infer_end(&body);
}

// infer_json_cost is an upper bound of what jansson allocates. JSON over INFER_JSON_MAX is refused unread.
static void the_cost_grows_with_the_json_alone(void **state) {
  (void)state;
  const struct infer all = {.model = "m", .version = "1", .head_bytes = -1},
                     none = {.model = "m", .version = "1", .head_bytes = 0};
  assert_int_equal(infer_json_bytes(&all, 7), 7);
  assert_int_equal(infer_json_bytes(&none, 7), 0);
  static const char text[] = "{\"a\":[1,2,3]}";
  size_t cost = infer_json_cost(text, sizeof text - 1);
  assert_true(cost > sizeof text && infer_json_cost("", 0) < cost);
  size_t size = (size_t)INFER_JSON_MAX + 1;
  char *large = malloc(size);
  assert_non_null(large);
  memset(large, '[', size);
  assert_int_equal(infer_json_cost(large, size), 0);
  infer = all;
  job_request_init(&request, VX_TRANSFORM);
  assert_false(infer_read(&body, large, size, &shared, &infer, &request, &error));
  assert_int_equal(error.kind, ERROR_BODY_TOO_LARGE);
  infer_end(&body);
  free(large);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bytes_stay_where_they_are),
      cmocka_unit_test(bytes_are_taken_in_the_order_of_the_inputs),
      cmocka_unit_test(parameters_are_those_of_a_query),
      cmocka_unit_test(a_body_without_json_is_rows_of_the_model),
      cmocka_unit_test(points_may_be_json),
      cmocka_unit_test(null_is_nan),
      cmocka_unit_test(points_as_json_must_be_as_many_as_the_shape_says),
      cmocka_unit_test(a_null_without_bytes_is_no_data),
      cmocka_unit_test(several_inputs_are_bound_by_name),
      cmocka_unit_test(bytes_of_several_inputs_stay_where_they_are),
      cmocka_unit_test(whole_numbers_must_be_whole_and_fit),
      cmocka_unit_test(sizes_do_not_overflow),
      cmocka_unit_test(missing_inputs_are_refused),
      cmocka_unit_test(every_cut_body_is_refused),
      cmocka_unit_test(json_of_another_form_is_refused),
      cmocka_unit_test(a_head_longer_than_its_body_is_refused),
      cmocka_unit_test(the_cost_grows_with_the_json_alone),
  };
  return cmocka_run_group_tests(tests, NULL, forget);
}
