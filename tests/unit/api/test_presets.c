// Presets: the built-in presets, a directory that overrides them, and refused files.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/presets.h"

static void built_in_presets_load(void **state) {
  (void)state;
  static const char *const names[] = {"kitti_pointpillar",
                                      "kitti_second",
                                      "nuscenes_centerpoint_voxel0075",
                                      "nuscenes_centerpoint_voxel01",
                                      "nuscenes_dynamic_pillar",
                                      "nuscenes_frnet",
                                      "nuscenes_pointpillar",
                                      "nuscenes_ptv3",
                                      "semantickitti_cenet",
                                      "semantickitti_cylinder3d",
                                      "semantickitti_frnet",
                                      "semantickitti_rangenet",
                                      "voxelize_cuda",
                                      "waymo_centerpoint",
                                      "waymo_pointpillar",
                                      "waymo_ptv3"};
  struct error error;
  struct presets *presets = presets_load("", &error);
  assert_non_null(presets);
  assert_int_equal(presets_count(presets), sizeof names / sizeof *names);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    assert_string_equal(preset_name(presets_at(presets, i)), names[i]);
  const struct job_request *second = presets_request(presets_find(presets, "kitti_second"));
  assert_true(second->job.params.voxelize.voxel_size[0] == 0.05f && second->job.params.voxelize.range_max[0] == 70.4f);
  assert_int_equal(second->job.params.voxelize.max_points_per_voxel, 5);
  assert_null(presets_find(presets, "kitti"));
  presets_close(presets);
}

static void refused_files_say_why(void **state) {
  (void)state;
#define GOOD "\"point_cloud_range\":[0,0,0,1,1,1],\"voxel_size\":[1,1,1]"
  static const struct {
    const char *json, *reason;
  } cases[] = {
      {"", "line"},
      {"[]", "expected an object"},
      {"{\"parameters\":{" GOOD "}}", "expected an object"},
      {"{\"description\":\"d\",\"parameters\":{" GOOD "},\"more\":{}}", "more is not the name of another operation"},
      {"{\"description\":\"d\",\"parameters\":{" GOOD "},\"nms\":1}", "nms is not the name of another operation"},
      {"{\"description\":\"d\",\"parameters\":{" GOOD "},\"voxelize\":{" GOOD "}}", "voxelize is not the name"},
      {"{\"description\":\"d\",\"parameters\":{" GOOD "},\"nms\":{\"iou_threshold\":2}}", "from 0 to 1"},
      {"{\"description\":\"d\",\"parameters\":{" GOOD "},\"decode\":{}}", "point_cloud_range is missing"},
      {"{\"description\":\"d\",\"parameters\":{" GOOD "},\"decode\":{\"head\":\"center\"}}", "head is 'center'"},
      {"{\"description\":\"d\",\"parameters\":{}}", "point_cloud_range is missing"},
      {"{\"description\":\"d\",\"operation\":\"fps\",\"parameters\":{}}", "num_samples is missing"},
      {"{\"description\":\"d\",\"operation\":\"fps\",\"parameters\":{" GOOD "}}", "there is no parameter"},
      {"{\"description\":\"d\",\"operation\":\"sort\",\"parameters\":{}}",
       "operation is 'sort'; allowed: voxelize, fps, points, transform"},
      {"{\"description\":\"d\",\"operation\":7,\"parameters\":{}}", "operation is not a string; allowed: voxelize,"},
      {"{\"description\":\"d\",\"parameters\":{" GOOD ",\"preset\":\"a\"}}", "preset is not allowed"},
      {"{\"description\":\"d\",\"parameters\":{" GOOD ",\"voxel_sise\":1}}", "there is no parameter"},
      {"{\"description\":\"d\",\"parameters\":{" GOOD ",\"max_voxels\":null}}", "max_voxels is not allowed"},
      {"{\"description\":\"d\",\"parameters\":{" GOOD ",\"columns\":[\"x\",\"y\",\"z\"]}}", "columns has 3 names"},
      {"{\"description\":\"d\",\"parameters\":{" GOOD ",\"columns\":[\"x\",\"z\",\"y\",\"i\"]}}",
       "columns must begin with x,y,z"},
      {"{\"description\":\"d\",\"parameters\":{" GOOD ",\"columns\":\"x,y,z,i\",\"intensity_range\":[0,1]}}",
       "does not name intensity"},
      {"{\"description\":\"d\",\"parameters\":{" GOOD ",\"intensity_range\":[1,0]}}", "allowed: min below max"},
      {"{\"description\":\"d\",\"parameters\":{" GOOD ",\"intensity_range\":1}}", "intensity_range is '1'"},
      {"{\"description\":\"d\",\"parameters\":{" GOOD ",\"ground_z\":\"low\"}}", "allowed: a finite number"},
      {"{\"description\":\"d\",\"parameters\":{" GOOD ",\"max_voxels\":0}}", "allowed"},
      {"{\"description\":\"d\",\"parameters\":{" GOOD ",\"max_voxels\":1,\"max_voxels\":1}}", "line"},
      {"{\"description\":\"d\",\"parameters\":{" GOOD ",\"start\":1}}", "without fps"},
      {"{\"description\":\"d\",\"parameters\":{" GOOD ",\"num_samples\":1}}", "there is no parameter"},
      {"{\"description\":\"d\",\"parameters\":{" GOOD ",\"feature\":[[\"mean\"]]}}", "feature is not allowed"},
      {"{\"description\":\"d\",\"parameters\":{" GOOD ",\"steps\":[\"downsample\",{\"tag\":\"a\"}]}}",
       "entry 2 of steps"},
      {"{\"description\":\"d\",\"parameters\":{" GOOD ",\"steps\":[{\"op\":1}]}}", "entry 1 of steps"},
      {"{\"description\":\"d\",\"parameters\":{" GOOD ",\"steps\":[null]}}", "entry 1 of steps"},
      {"{\"description\":\"d\",\"parameters\":{" GOOD ",\"steps\":[{\"op\":\"downsample\",\"tag\":1,\"every\":2}]}}",
       "entry 1 of steps is neither a string nor an object with strings as op and, if given, tag"},
      {"{\"description\":\"d\",\"parameters\":{" GOOD ",\"steps\":[{\"op\":\"downsample\",\"every\":2}],"
       "\"downsample.every\":3}}",
       "downsample.every is given twice, also in its step"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct error error;
    struct preset *preset = preset_parse("p", cases[i].json, strlen(cases[i].json), &error);
    if (preset || !strstr(error.text, cases[i].reason)) fail_msg("%s: %s", cases[i].json, error.text);
  }
}

static void a_preset_may_sample(void **state) {
  (void)state;
  static const char json[] = "{\"description\":\"d\",\"parameters\":{" GOOD ",\"fps\":[3,4],\"start\":2}}";
  struct error error;
  struct preset *preset = preset_parse("p", json, strlen(json), &error);
  if (!preset) fail_msg("%s", error.text);
  const struct job_request *request = presets_request(preset);
  assert_true(request->job.params.voxelize.sampling.enabled);
  assert_int_equal(request->job.params.voxelize.sampling.start, 2);
  assert_int_equal(request->num_sample_counts, 2);
  assert_true(request->job.tensors & VX_TENSOR_BIT(VX_SAMPLED_POINTS));
  preset_close(preset);
}

static void a_preset_has_an_operation(void **state) {
  (void)state;
  static const char *const operations[] = {"", "\"operation\":\"voxelize\",", "\"operation\":\"fps\","};
  static const char *const parameters[] = {GOOD, GOOD, "\"num_samples\":[3,4],\"start\":2"};
  for (int i = 0; i < 3; i++) {
    char json[256], memory[2048];
    struct error error;
    struct text text = text_over(memory, sizeof memory);
    snprintf(json, sizeof json, "{\"description\":\"d\",%s\"parameters\":{%s}}", operations[i], parameters[i]);
    struct preset *preset = preset_parse("p", json, strlen(json), &error);
    if (!preset) fail_msg("%s", error.text);
    assert_int_equal(presets_request(preset)->job.op, i == 2 ? VX_FPS : VX_VOXELIZE);
    preset_write(preset, &text);
    assert_int_equal(strstr(memory, "\"operation\":\"fps\"") != NULL, i == 2);
    assert_int_equal(strstr(memory, "\"operation\"") != NULL, i == 2);
    preset_close(preset);
  }
}

static void a_preset_may_have_several_operations(void **state) {
  (void)state;
  static const char json[] = "{\"description\":\"d\",\"nms\":{\"nms_post_max\":7},\"parameters\":{" GOOD
                             "},\"fps\":{\"num_samples\":5,\"timeout_ms\":9}}";
  struct error error = {0};
  char memory[4096];
  struct text text = text_over(memory, sizeof memory);
  struct preset *preset = preset_parse("p", json, strlen(json), &error);
  if (!preset) fail_msg("%s", error.text);
  assert_ptr_equal(presets_request_of(preset, VX_VOXELIZE), presets_request(preset));
  assert_int_equal(presets_request_of(preset, VX_NMS)->job.params.nms.post_max, 7);
  assert_int_equal(presets_request_of(preset, VX_FPS)->timeout_ms, 9);
  assert_int_equal(presets_request(preset)->timeout_ms, 0);
  assert_null(presets_request_of(preset, VX_DECODE));
  preset_write(preset, &text);
  assert_non_null(strstr(memory, "\"nms\":{\"preset\":\"p\""));
  assert_null(strstr(memory, "\"operation\""));
  preset_close(preset);
}

// The operations of one built-in preset agree in their common parameters, and each head names its classes.
static void built_in_heads_fit_their_grids(void **state) {
  (void)state;
  struct error error;
  struct presets *presets = presets_load("", &error);
  assert_non_null(presets);
  int heads = 0;
  for (size_t i = 0; i < presets_count(presets); i++) {
    const struct preset *preset = presets_at(presets, i);
    const struct vx_voxelize *grid = &presets_request(preset)->job.params.voxelize;
    const struct job_request *anchor = presets_request_of(preset, VX_DECODE);
    const struct job_request *center = presets_request_of(preset, VX_DECODE_CENTER);
    const struct job_request *nms = presets_request_of(preset, VX_NMS), *head = anchor ? anchor : center;
    if (!head) continue;
    const struct vx_nms *own = anchor ? &anchor->job.params.decode.nms : &center->job.params.center.nms;
    const float *min = anchor ? anchor->job.params.decode.range_min : center->job.params.center.range_min;
    const float *max = anchor ? anchor->job.params.decode.range_max : center->job.params.center.range_max;
    assert_true(!anchor || !center);
    assert_memory_equal(min, grid->range_min, 2 * sizeof *min);  // x and y; the z of dynamic pillars has no bounds
    assert_memory_equal(max, grid->range_max, 2 * sizeof *max);
    if (center) assert_memory_equal(center->job.params.center.voxel_size, grid->voxel_size, 2 * sizeof(float));
    if (nms) assert_memory_equal(&nms->job.params.nms, own, sizeof *own);
    assert_int_not_equal(head->num_class_names, 0);
    heads++;
  }
  assert_int_equal(heads, 8);
  presets_close(presets);
}

// As many matrices as a step may have, with the longest numbers.
static void a_preset_may_hold_all_matrices(void **state) {
  (void)state;
  char json[65536];
  struct error error = {0};
  struct text text = text_over(json, sizeof json);
  text_put(&text, "{\"description\":\"d\",\"operation\":\"transform\",\"parameters\":{\"matrix\":[");
  for (int i = 0; i < STEP_MATRICES; i++) {
    for (int j = 0; j < 12; j++) text_put(&text, "-1.2345678901234567e-100,");
    text_printf(&text, "0,0,0,1%s", i < STEP_MATRICES - 1 ? "," : "]}}");
  }
  assert_true(text_complete(&text));
  struct preset *preset = preset_parse("p", json, text.length, &error);
  if (!preset) fail_msg("%s", error.text);
  assert_int_equal(presets_request(preset)->chain.steps[0].step.params.transform.num_matrices, STEP_MATRICES);
  preset_close(preset);
}

static void a_directory_overrides_and_adds(void **state) {
  (void)state;
  char directory[] = "/tmp/voxeld-presets-XXXXXX", path[64];
  struct error error = {0};
  assert_non_null(mkdtemp(directory));
  // The last two are not presets: a hidden file, as an editor leaves it, and a file of another kind.
  static const char *const files[] = {"kitti_second.json", "mine.json", ".#mine.json", "mine.txt"};
  enum { FILES = sizeof files / sizeof *files };
  for (int i = 0; i < FILES; i++) {
    snprintf(path, sizeof path, "%s/%s", directory, files[i]);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(i < 2 ? "{\"description\":\"d\",\"parameters\":{" GOOD ",\"max_voxels\":77}}" : "rubbish", file);
    fclose(file);
  }
  struct presets *presets = presets_load(directory, &error);
  if (!presets) fail_msg("%s", error.text);
  assert_int_equal(presets_count(presets), 17);
  assert_int_equal(presets_request(presets_find(presets, "kitti_second"))->job.params.voxelize.max_voxels, 77);
  assert_int_equal(presets_request(presets_find(presets, "mine"))->job.params.voxelize.max_voxels, 77);
  presets_close(presets);
  for (int i = 0; i < FILES; i++) {
    snprintf(path, sizeof path, "%s/%s", directory, files[i]);
    unlink(path);
  }
  rmdir(directory);
  assert_null(presets_load(directory, &error));
  assert_non_null(strstr(error.text, directory));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(built_in_presets_load),
      cmocka_unit_test(refused_files_say_why),
      cmocka_unit_test(a_preset_may_sample),
      cmocka_unit_test(a_preset_has_an_operation),
      cmocka_unit_test(a_preset_may_have_several_operations),
      cmocka_unit_test(built_in_heads_fit_their_grids),
      cmocka_unit_test(a_preset_may_hold_all_matrices),
      cmocka_unit_test(a_directory_overrides_and_adds),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
