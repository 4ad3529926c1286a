// The pages of models, and the body of a request for the list of models.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/models.h"
#include "api/routes.h"

static struct job_request request;

static void ask(enum vx_op op, const char *name, const char *value) {
  struct error error;
  if (!job_request_set(&request, name, strlen(name), value, strlen(value), &error)) fail_msg("%s", error.text);
  assert_int_equal(request.job.op, op);
}

// Measures the document, writes it into memory of this size, and parses it.
static json_t *written(const struct model *model, void (*write)(const struct model *model, struct text *out)) {
  struct text text = text_over(NULL, 0);
  write(model, &text);
  size_t size = text.length + 1;
  char *memory = malloc(size);
  assert_non_null(memory);
  text = text_over(memory, size);
  write(model, &text);
  assert_true(text_complete(&text));
  json_t *root = json_loads(memory, JSON_REJECT_DUPLICATES, NULL);
  if (!root) fail_msg("no JSON: %s", memory);
  free(memory);
  return root;
}

static void assert_tensor(const json_t *list, size_t place, const char *name, const char *shape, const char *expected) {
  const json_t *tensor = json_array_get(list, place);
  assert_string_equal(json_string_value(json_object_get(tensor, "name")), name);
  char *shown = json_dumps(json_object_get(tensor, shape), JSON_COMPACT);
  assert_string_equal(shown, expected);
  free(shown);
}

static void a_preset_has_its_columns_and_its_cap(void **state) {
  (void)state;
  job_request_init(&request, VX_VOXELIZE);
  ask(VX_VOXELIZE, "num_features", "5");
  ask(VX_VOXELIZE, "dtype", "float16");
  ask(VX_VOXELIZE, "max_points_per_voxel", "7");
  ask(VX_VOXELIZE, "feature", "points,pillar");
  ask(VX_VOXELIZE, "feature_dtype", "float16");
  json_t *root =
      written(&(struct model){"a \"model\"", &request, true, NULL, MODEL_VERSION, NULL, NULL}, model_write_metadata);
  const json_t *inputs = json_object_get(root, "inputs"), *outputs = json_object_get(root, "outputs");
  assert_string_equal(json_string_value(json_object_get(root, "name")), "a \"model\"");
  assert_int_equal(json_array_size(inputs), 2);
  assert_tensor(inputs, 0, "points", "shape", "[-1,5]");
  assert_tensor(inputs, 1, "point_counts", "shape", "[-1]");
  assert_string_equal(json_string_value(json_object_get(json_array_get(inputs, 0), "datatype")), "FP16");
  assert_int_equal(json_array_size(outputs), 4);
  assert_tensor(outputs, 0, "voxel_coords", "shape", "[-1,4]");
  assert_tensor(outputs, 1, "voxel_num_points", "shape", "[-1]");
  assert_tensor(outputs, 2, "voxels", "shape", "[-1,7,5]");
  assert_tensor(outputs, 3, "pillar_features", "shape", "[-1,7,11]");
  assert_string_equal(json_string_value(json_object_get(json_array_get(outputs, 2), "datatype")), "FP32");
  assert_string_equal(json_string_value(json_object_get(json_array_get(outputs, 3), "datatype")), "FP16");
  json_decref(root);
}

static void an_operation_takes_any_columns_and_any_cap(void **state) {
  (void)state;
  job_request_init(&request, VX_VOXELIZE);
  ask(VX_VOXELIZE, "outputs", "voxel_coords,pillar_features");
  json_t *root =
      written(&(struct model){"voxelize", &request, false, NULL, MODEL_VERSION, NULL, NULL}, model_write_config);
  const json_t *inputs = json_object_get(root, "input"), *outputs = json_object_get(root, "output");
  assert_tensor(inputs, 0, "points", "dims", "[-1,-1]");
  assert_null(json_object_get(json_array_get(inputs, 0), "optional"));
  assert_true(json_is_true(json_object_get(json_array_get(inputs, 1), "optional")));
  assert_int_equal(json_array_size(outputs), 2);
  assert_tensor(outputs, 0, "voxel_coords", "dims", "[-1,4]");
  assert_tensor(outputs, 1, "pillar_features", "dims", "[-1,-1,-1]");
  assert_string_equal(json_string_value(json_object_get(json_array_get(outputs, 0), "data_type")), "TYPE_INT32");
  assert_int_equal(json_integer_value(json_object_get(root, "max_batch_size")), 0);
  json_decref(root);
}

static void inputs_are_those_of_the_operation(void **state) {
  (void)state;
  job_request_init(&request, VX_NMS);
  json_t *root = written(&(struct model){"nms", &request, false, NULL, MODEL_VERSION, NULL, NULL}, model_write_config);
  const json_t *inputs = json_object_get(root, "input");
  static const char *const expected[][2] = {
      {"boxes", "[-1,7]"}, {"scores", "[-1]"}, {"labels", "[-1]"}, {"box_counts", "[-1]"}};
  assert_int_equal(json_array_size(inputs), 4);
  for (size_t i = 0; i < 4; i++) {
    assert_tensor(inputs, i, expected[i][0], "dims", expected[i][1]);
    assert_int_equal(json_is_true(json_object_get(json_array_get(inputs, i), "optional")), i >= 2);
  }
  assert_string_equal(json_string_value(json_object_get(json_array_get(inputs, 2), "data_type")), "TYPE_INT32");
  json_decref(root);
  job_request_init(&request, VX_DECODE);
  ask(VX_DECODE, "anchor_sizes", "1,1,1,2,2,2");
  root = written(&(struct model){"head", &request, true, NULL, MODEL_VERSION, NULL, NULL}, model_write_metadata);
  inputs = json_object_get(root, "inputs");
  assert_int_equal(json_array_size(inputs), 3);
  assert_tensor(inputs, 0, "cls_preds", "shape", "[-1,-1,-1,-1]");
  assert_tensor(inputs, 1, "box_preds", "shape", "[-1,-1,-1,28]");
  assert_tensor(inputs, 2, "dir_cls_preds", "shape", "[-1,-1,-1,8]");
  json_decref(root);
  job_request_init(&request, VX_DECODE_CENTER);
  ask(VX_DECODE_CENTER, "task_classes", "1,2,2");
  root = written(&(struct model){"centers", &request, true, NULL, MODEL_VERSION, NULL, NULL}, model_write_metadata);
  inputs = json_object_get(root, "inputs");
  assert_tensor(inputs, 0, "heatmap", "shape", "[-1,-1,-1,5]");
  assert_tensor(inputs, 3, "dim", "shape", "[-1,-1,-1,9]");
  assert_tensor(json_object_get(root, "outputs"), 0, "boxes", "shape", "[-1,-1]");
  json_decref(root);
}

static void each_operation_can_be_described(void **state) {
  (void)state;
  struct error error;
  struct presets *presets = presets_load("", &error);
  assert_non_null(presets);
  const struct named named = {presets, NULL};
  for (enum vx_op op = 0; op < VX_OPS; op++) {
    struct model model;
    if (vx_operations[op].needs_detector) continue;
    assert_true(model_find(&named, vx_operations[op].name, "", &request, &model, &error));
    assert_false(model.preset);
    json_decref(written(&model, model_write_metadata));
    json_decref(written(&model, model_write_config));
  }
  presets_close(presets);
}

static void models_are_found_by_name(void **state) {
  (void)state;
  struct model model;
  struct error error;
  struct presets *presets = presets_load("", &error);
  assert_non_null(presets);
  const struct named named = {presets, NULL};
  assert_true(model_find(&named, "kitti_second", "", &request, &model, &error) && model.preset);
  assert_ptr_equal(model.request, presets_request(presets_find(presets, "kitti_second")));
  assert_true(model_find(&named, "fps", "", &request, &model, &error) && !model.preset);
  assert_ptr_equal(model.request, &request);
  assert_int_equal(request.job.op, VX_FPS);
  static const char *const missing[] = {"", "kitti", "nm", "kitti_second/", "detect"};
  for (size_t i = 0; i < sizeof missing / sizeof *missing; i++)
    assert_false(model_find(&named, missing[i], "", &request, &model, &error));
  presets_close(presets);
}

static void a_preset_has_a_model_for_each_of_its_operations(void **state) {
  (void)state;
  struct model model;
  struct error error;
  struct presets *presets = presets_load("", &error);
  assert_non_null(presets);
  const struct named named = {presets, NULL};
  assert_true(model_find(&named, "kitti_pointpillar_decode", "", &request, &model, &error) && model.preset);
  assert_ptr_equal(model.request, presets_request_of(presets_find(presets, "kitti_pointpillar"), VX_DECODE));
  json_t *root = written(&model, model_write_metadata);
  const json_t *inputs = json_object_get(root, "inputs");
  assert_string_equal(json_string_value(json_object_get(root, "name")), "kitti_pointpillar_decode");
  assert_tensor(inputs, 0, "cls_preds", "shape", "[-1,-1,-1,18]");
  assert_tensor(inputs, 1, "box_preds", "shape", "[-1,-1,-1,42]");
  assert_tensor(inputs, 2, "dir_cls_preds", "shape", "[-1,-1,-1,12]");
  json_decref(root);
  assert_true(model_find(&named, "nuscenes_centerpoint_voxel01_decode_center", "", &request, &model, &error) &&
              model.preset);
  root = written(&model, model_write_metadata);
  inputs = json_object_get(root, "inputs");
  assert_tensor(inputs, 0, "heatmap", "shape", "[-1,-1,-1,10]");
  assert_tensor(inputs, 1, "center", "shape", "[-1,-1,-1,12]");
  json_decref(root);
  assert_true(model_find(&named, "kitti_pointpillar_nms", "", &request, &model, &error));
  assert_int_equal(model.request->job.op, VX_NMS);
  static const char *const missing[] = {"kitti_pointpillar_voxelize", "kitti_pointpillar_decode_center",
                                        "kitti_pointpillar_",         "_decode",
                                        "kitti_pointpillar-decode",   "kitti_decode",
                                        "voxelize_cuda_decode",       "kitti_pointpillar_decode_decode"};
  for (size_t i = 0; i < sizeof missing / sizeof *missing; i++)
    assert_false(model_find(&named, missing[i], "", &request, &model, &error));
  char name[ROUTE_NAME_SIZE];
  memset(name, 'a', sizeof name);
  memcpy(name + sizeof name - sizeof "_decode", "_decode", sizeof "_decode");
  assert_false(model_find(&named, name, "", &request, &model, &error));
  presets_close(presets);
}

// A preset named kitti_second_nms hides the nms model of the preset kitti_second. The operation fps hides a preset fps.
static void the_list_has_each_name_once(void **state) {
  (void)state;
  struct model model;
  char directory[] = "/tmp/voxeld-models-XXXXXX", path[96], name[MODEL_NAME_SIZE];
  static const char *const files[] = {"fps", "kitti_second_nms"};
  assert_non_null(mkdtemp(directory));
  for (int i = 0; i < 2; i++) {
    snprintf(path, sizeof path, "%s/%s.json", directory, files[i]);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("{\"description\":\"d\",\"operation\":\"fps\",\"parameters\":{\"num_samples\":7}}", file);
    fclose(file);
  }
  struct error error;
  struct presets *presets = presets_load(directory, &error);
  if (!presets) fail_msg("%s", error.text);
  const struct named named = {presets, NULL};
  size_t listed = 0, hidden = 0;
  for (size_t number = 0; number < model_numbers(&named); number++) {
    if (!model_at(&named, number, name, &request, &model)) continue;
    assert_ptr_equal(model.name, name);
    listed++;
    hidden += strcmp(name, "fps") == 0 || strcmp(name, "kitti_second_nms") == 0;
    assert_true(strcmp(name, "kitti_second_nms") != 0 || model.request->job.op == VX_FPS);
    assert_true(strcmp(name, "fps") != 0 || !model.preset);
  }
  assert_int_equal(hidden, 2);
  // operations + presets + heads + nms models of 4 presets less the hidden one
  assert_int_equal(listed, 10 + 17 + 8 + 3);
  presets_close(presets);
  for (int i = 0; i < 2; i++) {
    snprintf(path, sizeof path, "%s/%s.json", directory, files[i]);
    unlink(path);
  }
  rmdir(directory);
}

static void every_name_fits(void **state) {
  (void)state;
  enum { LONGEST_PRESET = 63 };
  for (enum vx_op op = 0; op < VX_OPS; op++)
    assert_true(LONGEST_PRESET + 1 + strlen(vx_operations[op].name) < MODEL_NAME_SIZE);
  assert_true((int)MODEL_NAME_SIZE <= (int)ROUTE_NAME_SIZE);
}

static void the_list_may_be_limited_to_ready_models(void **state) {
  (void)state;
  struct error error;
  bool ready = true;
  assert_true(model_read_index("", 0, &ready, &error) && !ready);
  assert_true(model_read_index("{\"ready\":true}", 14, &ready, &error) && ready);
  assert_true(model_read_index(" {\"ready\":false} ", 17, &ready, &error) && !ready);
  assert_true(model_read_index("{}", 2, &ready, &error) && !ready);
  static const char *const wrong[] = {"[]", "true", "{\"ready\":1}", "{\"ready\":null}", "{", "{}x"};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    assert_false(model_read_index(wrong[i], strlen(wrong[i]), &ready, &error));
    assert_int_equal(error.kind, ERROR_BAD_BODY);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_preset_has_its_columns_and_its_cap),
                                     cmocka_unit_test(an_operation_takes_any_columns_and_any_cap),
                                     cmocka_unit_test(inputs_are_those_of_the_operation),
                                     cmocka_unit_test(each_operation_can_be_described),
                                     cmocka_unit_test(models_are_found_by_name),
                                     cmocka_unit_test(a_preset_has_a_model_for_each_of_its_operations),
                                     cmocka_unit_test(the_list_has_each_name_once),
                                     cmocka_unit_test(every_name_fits),
                                     cmocka_unit_test(the_list_may_be_limited_to_ready_models)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
