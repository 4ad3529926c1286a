// A detection as a job, with a stand-in for the network. Its results equal those of its stages as separate jobs.
#include <stdio.h>

#include "kernels/cpu/sparse/sparse.h"
#include "kernels/decoder.h"
#include "kernels/half.h"
#include "tests/unit/kernels/kernels_reference.h"

enum { COLUMNS = 4, CHANNELS = COLUMNS + 6, WIDTH = 5, SIDE = 6, CELLS = SIDE * SIDE, SIZES = 2, ROTATIONS = 2 };
enum { ANCHORS = SIZES * ROTATIONS, CLASSES = 3, BINS = 2, MAPS = 3, POINTS = 120, CLOUDS = 3 };

#define ANCHOR_TENSORS (VX_DETECT_TENSORS & ~(VX_CENTER_MAPS | VX_SPARSE_TENSORS))

// ---- a network ------------------------------------------------------------------------------------------------------

struct vx_network {
  bool channels_first, fails;
  int64_t planes;  // channels of the input
  int runs;
  int64_t largest;  // most clouds of a run so far
};

static const char *const names[MAPS] = {"classes", "boxes", "directions"};
static const int64_t channels[MAPS] = {ANCHORS * CLASSES, ANCHORS *VX_BOX_VALUES, ANCHORS *BINS};
static const float scales[MAPS] = {2, 0.2f, 1};

// channel c of map m = plane (c + m) % planes of the input at the same cell, times scales[m], minus 1
static float map_value(const float *features, int64_t planes, int map, int64_t channel, int64_t cell) {
  return features[(channel + map) % planes * CELLS + cell] * scales[map] - 1;
}

static void write_map(const struct vx_network *network, const struct vx_network_value *in, int map,
                      const struct vx_network_value *out) {
  int64_t clouds = in->shape.dims[0], most = channels[map];
  const int64_t first[] = {clouds, most, SIDE, SIDE}, last[] = {clouds, SIDE, SIDE, most};
  assert_memory_equal(out->shape.dims, network->channels_first ? first : last, sizeof first);
  assert_int_equal(out->shape.bytes, (size_t)(clouds * CELLS * most) * vx_dtype_size(out->shape.dtype));
  for (int64_t cloud = 0; cloud < clouds; cloud++) {
    const float *features = (const float *)in->data + cloud * network->planes * CELLS;
    for (int64_t i = 0; i < CELLS * most; i++) {
      int64_t channel = network->channels_first ? i / CELLS : i % most;
      int64_t cell = network->channels_first ? i % CELLS : i / most;
      float value = map_value(features, network->planes, map, channel, cell);
      if (out->shape.dtype == VX_FLOAT16)
        ((uint16_t *)out->data)[cloud * CELLS * most + i] = vx_float_to_half(value);
      else
        ((float *)out->data)[cloud * CELLS * most + i] = value;
    }
  }
}

static enum vx_status run_network(struct vx_network *network, const struct vx_network_run *run, struct error *error) {
  network->runs++;
  if (network->fails) return vx_fail(error, VX_FAILED, "the network fails");
  assert_int_equal(run->inputs, 1);
  assert_string_equal(run->input[0].name, "map");
  assert_int_equal(run->input[0].shape.dims[1], network->planes);
  int64_t clouds = run->input[0].shape.dims[0];
  network->largest = clouds > network->largest ? clouds : network->largest;
  for (int i = 0; i < run->outputs; i++) {
    int map = 0;
    while (strcmp(names[map], run->output[i].name) != 0) map++;
    write_map(network, &run->input[0], map, &run->output[i]);
  }
  return VX_OK;
}

static const struct vx_engine engine = {.name = "plain", .network_run = run_network};

// ---- a detector -----------------------------------------------------------------------------------------------------

static float weight[CHANNELS * WIDTH], bias[WIDTH], points[CLOUDS * POINTS][COLUMNS];
static const int32_t counts[CLOUDS] = {POINTS, 0, POINTS};
static struct vx_network network;
static struct vx_detector detector;

static int make_detector(void **state) {
  (void)state;
  struct random random = {11};
  for (size_t i = 0; i < sizeof weight / sizeof *weight; i++) weight[i] = random_in(&random, -0.5f, 0.5f);
  for (int i = 0; i < WIDTH; i++) bias[i] = random_in(&random, -0.2f, 0.2f);
  for (int i = 0; i < CLOUDS * POINTS; i++)
    for (int c = 0; c < COLUMNS; c++) points[i][c] = random_in(&random, 0, c == 2 ? 1 : SIDE);
  points[3][0] = NAN;
  network = (struct vx_network){.planes = WIDTH};
  detector = (struct vx_detector){
      .engine = &engine,
      .network = &network,
      .voxelize = {.range_max = {SIDE, SIDE, 1},
                   .voxel_size = {1, 1, 1},
                   .max_points_per_voxel = 4,
                   .max_voxels = 1000,
                   .encoder = {1, {{weight, bias, CHANNELS, WIDTH}}}},
      .input = "map",
      .head = VX_DECODE,
      .params.decode = {.range_max = {SIDE, SIDE, 1},
                        .num_sizes = SIZES,
                        .num_rotations = ROTATIONS,
                        .sizes = {{4, 2, 1}, {1, 1, 2}},
                        .rotations = {0, 1.57f},
                        .dir_bins = BINS,
                        .score_threshold = 0.5f,
                        .nms = {0.1f, 50, 20, 0, 0, 0}},
      .items = CELLS * ANCHORS,
      .class_names = "a,b,c",
  };
  for (int map = 0; map < MAPS; map++)
    detector.maps[map] = (struct vx_detector_map){names[map], SIDE, SIDE, channels[map], VX_FLOAT32};
  return 0;
}

static struct vx_job detect_job(vx_tensor_set tensors) {
  return (struct vx_job){.op = VX_DETECT,
                         .params.detect = vx_detect_of(&detector),
                         .inputs = {vx_points_of(VX_FLOAT32, 0, COLUMNS, NULL)},
                         .tensors = tensors};
}

static struct outcome detect(vx_tensor_set tensors) {
  const struct vx_job asked = detect_job(tensors);
  struct outcome outcome = run_on(lane, &asked, points, CLOUDS, counts);
  if (outcome.status != VX_OK) fail_msg("%s", outcome.error.text);
  return outcome;
}

// ---- the stages as separate jobs ------------------------------------------------------------------------------------

static struct outcome run_voxelize(void) {
  struct vx_job asked = {.params.voxelize = detector.voxelize,
                         .inputs = {vx_points_of(VX_FLOAT32, 0, COLUMNS, NULL)},
                         .tensors = VX_TENSOR_BIT(VX_BEV_FEATURES)};
  return run_on(lane, &asked, points, CLOUDS, counts);
}

struct maps {
  float ctx[CLOUDS][CELLS][ANCHORS * CLASSES], box[CLOUDS][CELLS][ANCHORS * VX_BOX_VALUES];
  float dir[CLOUDS][CELLS][ANCHORS * BINS];
};

static void make_maps(const float *features, struct maps *maps) {
  float *const to[MAPS] = {maps->ctx[0][0], maps->box[0][0], maps->dir[0][0]};
  for (int map = 0; map < MAPS; map++)
    for (int64_t i = 0; i < CLOUDS * CELLS * channels[map]; i++) {
      const float *of_cloud = features + i / (CELLS * channels[map]) * network.planes * CELLS;
      float value = map_value(of_cloud, network.planes, map, i % channels[map], i / channels[map] % CELLS);
      to[map][i] = detector.maps[map].dtype == VX_FLOAT16 ? vx_half_to_float(vx_float_to_half(value)) : value;
    }
}

static struct outcome run_decode(const struct maps *maps) {
  const struct vx_job asked = {.op = VX_DECODE,
                               .params.decode = detector.params.decode,
                               .inputs = {{VX_FLOAT32, 4, {CLOUDS, SIDE, SIDE, channels[0]}, maps->ctx},
                                          {VX_FLOAT32, 4, {CLOUDS, SIDE, SIDE, channels[1]}, maps->box},
                                          {VX_FLOAT32, 4, {CLOUDS, SIDE, SIDE, channels[2]}, maps->dir}},
                               .tensors = VX_DECODE_TENSORS};
  const int32_t items[CLOUDS] = {CELLS * ANCHORS, CELLS * ANCHORS, CELLS * ANCHORS};
  return run_on(lane, &asked, maps->ctx, CLOUDS, items);
}

// A float16 map has the values of the expected float32 map.
static void assert_same_map(const struct outcome *is, enum vx_tensor which, const float *expected) {
  const struct vx_shape *shape = &is->layout.shape[which];
  const uint16_t *halves = tensor(is, which);
  assert_memory_equal(shape->dims, ((const int64_t[]){CLOUDS, SIDE, SIDE, channels[which - VX_HEAD_CLS_PREDS]}), 32);
  for (size_t i = 0; i < shape->bytes / sizeof *halves; i++) assert_int_equal(halves[i], vx_float_to_half(expected[i]));
}

static void assert_same_tensor(const struct outcome *is, enum vx_tensor which, const void *expected) {
  assert_memory_equal(tensor(is, which), expected, is->layout.shape[which].bytes);
}

static void assert_same_counts(const struct vx_counts *is, const struct vx_counts *voxels,
                               const struct vx_counts *boxes) {
  struct vx_counts expected = *voxels;
  expected.below_threshold = boxes->below_threshold;
  expected.invalid = boxes->invalid;
  expected.over_pre_max = boxes->over_pre_max;
  expected.suppressed = boxes->suppressed;
  expected.over_post_max = boxes->over_post_max;
  assert_memory_equal(is, &expected, sizeof expected);
  assert_true(is->not_finite == 1 && is->suppressed > 0 && is->below_threshold > 0);
}

static void assert_same(const struct outcome *outcome) {
  struct maps *maps = malloc(sizeof *maps);
  assert_non_null(maps);
  struct outcome voxels = run_voxelize();
  make_maps(tensor(&voxels, VX_BEV_FEATURES), maps);
  struct outcome boxes = run_decode(maps);
  assert_same_counts(&outcome->counts, &voxels.counts, &boxes.counts);
  assert_true(boxes.counts.kept > 4);
  assert_memory_equal(outcome->row_counts, boxes.row_counts, sizeof boxes.row_counts);
  for (int which = VX_DECODED_BOXES; which <= VX_BOX_COUNTS; which++) {
    enum vx_tensor number = (enum vx_tensor)which;
    if (!(outcome->layout.tensors & VX_TENSOR_BIT(number))) continue;
    assert_memory_equal(&outcome->layout.shape[number], &boxes.layout.shape[number], sizeof *boxes.layout.shape);
    assert_same_tensor(outcome, number, tensor(&boxes, number));
  }
  const void *const shown[] = {tensor(&voxels, VX_BEV_FEATURES), maps->ctx, maps->box, maps->dir};
  const enum vx_tensor stages[] = {VX_BEV_FEATURES, VX_HEAD_CLS_PREDS, VX_HEAD_BOX_PREDS, VX_HEAD_DIR_CLS_PREDS};
  for (int i = 0; i < 4; i++)
    if (outcome->layout.tensors & VX_TENSOR_BIT(stages[i]) && outcome->layout.shape[stages[i]].dtype == VX_FLOAT16)
      assert_same_map(outcome, stages[i], shown[i]);
    else if (outcome->layout.tensors & VX_TENSOR_BIT(stages[i]))
      assert_same_tensor(outcome, stages[i], shown[i]);
  free(voxels.block);
  free(boxes.block);
  free(maps);
}

// ---- tests ----------------------------------------------------------------------------------------------------------

static void a_detection_is_its_stages(void **state) {
  (void)state;
  const vx_tensor_set tensors[] = {VX_DECODE_TENSORS, ANCHOR_TENSORS, VX_ANCHOR_MAPS,
                                   VX_TENSOR_BIT(VX_BOX_INDICES) | VX_TENSOR_BIT(VX_HEAD_BOX_PREDS)};
  for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) {
    struct outcome outcome = detect(tensors[i]);
    assert_int_equal(outcome.outputs, 1);
    assert_int_equal(outcome.layout.tensors, tensors[i]);
    assert_same(&outcome);
    free(outcome.block);
  }
  assert_int_equal(network.largest, CLOUDS);
}

static void without_tensors_it_only_counts(void **state) {
  (void)state;
  struct outcome outcome = detect(0);
  assert_int_equal(outcome.outputs, 0);
  assert_same(&outcome);
}

static void channels_may_come_first_and_clouds_one_by_one(void **state) {
  (void)state;
  network.channels_first = detector.channels_first = detector.one_by_one = true;
  struct outcome outcome = detect(ANCHOR_TENSORS);
  assert_int_equal(network.runs, CLOUDS);
  assert_int_equal(network.largest, 1);
  assert_same(&outcome);
  free(outcome.block);
}

static void maps_may_be_float16(void **state) {
  (void)state;
  detector.maps[0].dtype = detector.maps[2].dtype = VX_FLOAT16;
  for (int first = 0; first < 2; first++) {
    network.channels_first = detector.channels_first = first;
    struct outcome outcome = detect(ANCHOR_TENSORS);
    assert_int_equal(outcome.layout.shape[VX_HEAD_CLS_PREDS].dtype, VX_FLOAT16);
    assert_int_equal(outcome.layout.shape[VX_HEAD_BOX_PREDS].dtype, VX_FLOAT32);
    assert_same(&outcome);
    free(outcome.block);
  }
}

static void maps_of_another_head_are_refused(void **state) {
  (void)state;
  const struct vx_job asked = detect_job(VX_DECODE_TENSORS | VX_TENSOR_BIT(VX_HEAD_HEATMAP));
  struct outcome outcome = run_on(lane, &asked, points, CLOUDS, counts);
  assert_int_equal(outcome.status, VX_REFUSED);
  assert_string_equal(outcome.error.text, "the detector does not make heatmap");
}

static void stages_have_times(void **state) {
  (void)state;
  struct outcome outcome = detect(VX_DECODE_TENSORS);
  const enum vx_stage stages[] = {VX_STAGE_VOXELIZE, VX_STAGE_ENCODER, VX_STAGE_SCATTER, VX_STAGE_NETWORK,
                                  VX_STAGE_DECODE};
  for (int i = 0; i < 5; i++) assert_true(outcome.stage_ns[stages[i]] > 0);
  free(outcome.block);
}

static void a_network_that_fails_ends_the_job(void **state) {
  (void)state;
  network.fails = true;
  const struct vx_job asked = detect_job(VX_DECODE_TENSORS);
  struct outcome outcome = run_on(lane, &asked, points, CLOUDS, counts);
  assert_int_equal(outcome.status, VX_FAILED);
  assert_string_equal(outcome.error.text, "the network fails");
  assert_int_equal(outcome.outputs, 0);
}

static void points_of_other_columns_are_refused(void **state) {
  (void)state;
  struct vx_job asked = detect_job(VX_DECODE_TENSORS);
  asked.inputs[VX_POINTS] = vx_points_of(VX_FLOAT32, 0, 3, NULL);
  struct outcome outcome = run_on(lane, &asked, points, 1, (int32_t[]){10});
  assert_int_equal(outcome.status, VX_REFUSED);
  assert_non_null(strstr(outcome.error.text, "for points with 3 columns it needs 9 inputs"));
}

// ---- backbones ------------------------------------------------------------------------------------------------------

enum { DEPTH = 4, SPARSE_WIDTH = 16, LEVELS = 2 };

// Five layers. Layer 2 adds the input of layer 1. Layer 3 begins the second level, which has two planes along z.
static int make_sparse_detector(void **state) {
  static float weights[27 * SPARSE_WIDTH * SPARSE_WIDTH], biases[SPARSE_WIDTH];
  const struct vx_sparse_layer first = {
      weights, biases, COLUMNS, SPARSE_WIDTH, .kernel = {3, 3, 3}, .submanifold = true};
  struct vx_sparse_layer next = first, halves = first;
  struct random random = {12};
  struct error error;
  if (make_detector(state) != 0) return 1;
  for (size_t i = 0; i < sizeof weights / sizeof *weights; i++) weights[i] = random_in(&random, -0.1f, 0.12f);
  for (int i = 0; i < SPARSE_WIDTH; i++) biases[i] = random_in(&random, -0.1f, 0.3f);
  next.inputs = halves.inputs = SPARSE_WIDTH;
  halves.submanifold = false;
  memcpy(halves.stride, (int32_t[]){2, 1, 1}, sizeof halves.stride);
  memcpy(halves.padding, (int32_t[]){0, 1, 1}, sizeof halves.padding);
  detector.voxelize.encoder.num_layers = 0;
  detector.voxelize.voxel_size[2] = 1.0f / DEPTH;
  detector.backbone = (struct vx_sparse){{DEPTH + 1, SIDE, SIDE}, 5, {first, next, next, halves, next}};
  detector.backbone.layers[2].adds = true;
  detector.max_rows = VX_MAX_SPARSE_ROWS;
  network.planes = 2 * (int64_t)SPARSE_WIDTH;
  return vx_sparse_plan_of(&detector.backbone, &detector.plan, &error) != VX_OK;
}

static struct outcome run_means(void) {
  struct vx_job asked = {.params.voxelize = detector.voxelize,
                         .inputs = {vx_points_of(VX_FLOAT32, 0, COLUMNS, NULL)},
                         .tensors = VX_TENSOR_BIT(VX_VOXEL_COORDS) | VX_TENSOR_BIT(VX_VOXEL_FEATURES)};
  return run_on(lane, &asked, points, CLOUDS, counts);
}

// Runs the backbone over the voxels of a separate job.
static void run_sparse(const struct outcome *voxels, struct vx_sparse_result *result) {
  struct vx_stop stop = {0};
  const struct vx_job job = {.stop = &stop};
  const struct vx_sparse_rows rows = {.num_clouds = CLOUDS,
                                      .num_rows = (int32_t)voxels->layout.shape[VX_VOXEL_COORDS].dims[0],
                                      .coords = tensor(voxels, VX_VOXEL_COORDS),
                                      .features = tensor(voxels, VX_VOXEL_FEATURES),
                                      .max_rows = VX_MAX_SPARSE_ROWS};
  struct error error;
  if (cpu_sparse(lane, &job, &detector.backbone, &rows, cpu_convolve_here(), result, &error) != VX_OK)
    fail_msg("%s", error.text);
}

static void a_detection_has_its_backbone(void **state) {
  static float map[CLOUDS * 2 * SPARSE_WIDTH * CELLS];
  static struct maps maps;
  (void)state;
  for (int op = 0; op < 2; op++) {
    struct vx_job asked = detect_job(op ? VX_BACKBONE_TENSORS : ANCHOR_TENSORS | VX_SPARSE_TENSORS);
    asked.op = op ? VX_BACKBONE : VX_DETECT;
    struct outcome outcome = run_on(lane, &asked, points, CLOUDS, counts), voxels = run_means();
    if (outcome.status != VX_OK) fail_msg("%s", outcome.error.text);
    struct vx_sparse_result expected = {.map = map};
    run_sparse(&voxels, &expected);
    assert_memory_equal(outcome.counts.level_rows, expected.level_rows, sizeof expected.level_rows);
    assert_true(expected.level_rows[LEVELS - 1] > 20 && expected.level_rows[LEVELS] == 0);
    assert_int_equal(outcome.layout.shape[VX_SPARSE_COORDS].dims[0], expected.level_rows[LEVELS - 1]);
    assert_same_tensor(&outcome, VX_SPARSE_COORDS, expected.coords);
    assert_same_tensor(&outcome, VX_SPARSE_FEATURES, expected.features);
    assert_int_equal(outcome.layout.shape[VX_BEV_FEATURES].bytes, sizeof map);
    assert_same_tensor(&outcome, VX_BEV_FEATURES, map);
    assert_true(outcome.stage_ns[VX_STAGE_BACKBONE] > 0);
    assert_int_equal(network.runs, !op);
    if (op) {
      assert_memory_equal(outcome.row_counts, voxels.row_counts, sizeof voxels.row_counts);
    } else {
      make_maps(map, &maps);
      struct outcome boxes = run_decode(&maps);
      assert_true(boxes.counts.kept > 4);
      assert_memory_equal(outcome.row_counts, boxes.row_counts, sizeof boxes.row_counts);
      assert_same_tensor(&outcome, VX_DECODED_BOXES, tensor(&boxes, VX_DECODED_BOXES));
      free(boxes.block);
      network.runs = 0;
    }
    free(outcome.block);
    free(voxels.block);
  }
}

static const int32_t few[] = {12};  // with 12 points, the second level has more rows than the first

static void check_refusal(const struct vx_job *asked, const char *reason) {
  struct outcome outcome = run_on(lane, asked, points, 1, few);
  assert_int_equal(outcome.status, VX_REFUSED);
  assert_string_equal(outcome.error.text, reason);
  assert_int_equal(outcome.outputs, 0);
  assert_int_equal(network.runs, 0);
}

static void too_many_rows_are_refused(void **state) {
  (void)state;
  char reason[128];
  struct vx_job asked = detect_job(VX_BACKBONE_TENSORS);
  asked.op = VX_BACKBONE;
  struct outcome outcome = run_on(lane, &asked, points, 1, few);
  int64_t first = outcome.counts.level_rows[0], last = outcome.counts.level_rows[1];
  free(outcome.block);
  assert_true(last > first);
  for (int i = 0; i < 2; i++) {
    detector.max_rows = (i ? last : first) - 1;
    snprintf(reason, sizeof reason, "level %d of the backbone has %lld rows; the most is %lld", i,
             (long long)(i ? last : first), (long long)detector.max_rows);
    check_refusal(&asked, reason);
    const struct vx_job detection = detect_job(VX_DECODE_TENSORS);
    check_refusal(&detection, reason);
  }
}

static void jobs_that_a_backbone_does_not_fit_are_refused(void **state) {
  (void)state;
  struct vx_job asked = detect_job(VX_DECODE_TENSORS);
  asked.inputs[VX_POINTS] = vx_points_of(VX_FLOAT32, 0, 3, NULL);
  check_refusal(&asked, "the points have 3 columns; the backbone takes 4");
  detector.backbone.num_layers = 0;
  asked = detect_job(VX_SPARSE_TENSORS);
  check_refusal(&asked, "the detector has no backbone");
  asked = detect_job(0);
  asked.op = VX_BACKBONE;
  check_refusal(&asked, "the detector has no backbone");
}

// A caller that stops the job after `left` calls of `stopped`.
struct patience {
  struct outcome outcome;  // first, since give_output takes a pointer to it
  int left;
};

static bool runs_out(void *ctx) {
  struct patience *patience = ctx;
  return patience->left-- == 0;
}

static void check_ends(const char *const reasons[], int count) {
  for (int left = 0; left < count; left++) {
    const struct vx_job asked = detect_job(VX_DECODE_TENSORS);
    struct patience patience = {.left = left};
    struct vx_job job = job_over(&asked, points, CLOUDS, counts);
    struct error error;
    job.caller = &(const struct vx_caller){.output = give_output, .stopped = runs_out};
    job.ctx = &patience;
    job.row_counts = patience.outcome.row_counts;
    network.runs = 0;
    assert_int_equal(backend->run(lane, &job, &error), VX_STOPPED);
    assert_string_equal(error.text, reasons[left]);
    assert_int_equal(network.runs, left == count - 1);
    assert_int_equal(patience.outcome.outputs, 0);
  }
}

static void a_job_ends_between_its_stages(void **state) {
  (void)state;
  const char *const reasons[] = {"ended before the network ran", "ended before boxes were made"};
  check_ends(reasons, 2);
}

static void a_job_ends_before_its_backbone(void **state) {
  (void)state;
  const char *const reasons[] = {"ended before the backbone ran", "ended before the network ran",
                                 "ended before boxes were made"};
  check_ends(reasons, 3);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(a_detection_is_its_stages, make_detector),
      cmocka_unit_test_setup(without_tensors_it_only_counts, make_detector),
      cmocka_unit_test_setup(channels_may_come_first_and_clouds_one_by_one, make_detector),
      cmocka_unit_test_setup(maps_may_be_float16, make_detector),
      cmocka_unit_test_setup(maps_of_another_head_are_refused, make_detector),
      cmocka_unit_test_setup(stages_have_times, make_detector),
      cmocka_unit_test_setup(a_network_that_fails_ends_the_job, make_detector),
      cmocka_unit_test_setup(points_of_other_columns_are_refused, make_detector),
      cmocka_unit_test_setup(a_job_ends_between_its_stages, make_detector),
      cmocka_unit_test_setup(a_detection_has_its_backbone, make_sparse_detector),
      cmocka_unit_test_setup(too_many_rows_are_refused, make_sparse_detector),
      cmocka_unit_test_setup(jobs_that_a_backbone_does_not_fit_are_refused, make_sparse_detector),
      cmocka_unit_test_setup(a_job_ends_before_its_backbone, make_sparse_detector),
  };
  // On a GPU a network needs a session; cuda-equal tests such detections.
  if (setenv("VOXELD_TEST_BACKEND", "cpu", 1) != 0) return 1;
  return cmocka_run_group_tests(tests, open_backend, close_backend);
}
