// Jobs stopped at various calls of `stopped` end at once and affect no later job. VX_TRANSFORM is left out, since it
// runs the code of VX_POINTS_OP.
#include "kernels/decoder.h"
#include "tests/unit/kernels/kernels_reference.h"

enum { ROWS = 2 << 16, COLUMNS = 4, WIDTH = 8, SIDE = 256, CLASSES = 3, SECTIONS = 3 };

static float points[ROWS][COLUMNS], boxes[ROWS][VX_BOX_VALUES], scores[ROWS], features[ROWS][WIDTH];
static float logits[SIDE * SIDE][CLASSES], moves[SIDE * SIDE][VX_BOX_VALUES], dims[SIDE * SIDE][3];
static uint16_t halves[ROWS][COLUMNS];
static int32_t coords[ROWS][4];
static float weights[2 * COLUMNS + 12][WIDTH], biases[WIDTH];

static void make_sparse_detector(void);

static int make_rows(void **state) {
  struct random random = {5};
  for (int i = 0; i < ROWS; i++) {
    for (int c = 0; c < COLUMNS; c++) {
      points[i][c] = i % 97 == 96 ? NAN : random_in(&random, -1, 101);
      halves[i][c] = (uint16_t)(next_random(&random) % 0x5800);  // below 128
    }
    for (int c = 0; c < VX_BOX_VALUES; c++) boxes[i][c] = random_in(&random, 1, c < 2 ? 900 : 3);
    scores[i] = random_in(&random, 0, 1);
    coords[i][2] = (int32_t)(next_random(&random) % SIDE);
    coords[i][3] = (int32_t)(next_random(&random) % SIDE);
    for (int c = 0; c < WIDTH; c++) features[i][c] = random_in(&random, -1, 1);
  }
  for (int i = 0; i < SIDE * SIDE; i++) {
    for (int c = 0; c < CLASSES; c++) logits[i][c] = random_in(&random, -3, 1);
    for (int c = 0; c < 3; c++) dims[i][c] = random_in(&random, 0, 1);
  }
  for (size_t i = 0; i < sizeof weights / sizeof(float); i++) ((float *)weights)[i] = random_in(&random, -1, 1);
  make_sparse_detector();
  return open_backend(state);
}

// ---- a detector -----------------------------------------------------------------------------------------------------

static enum vx_status run_network(struct vx_network *network, const struct vx_network_run *run, struct error *error) {
  (void)network, (void)error;
  for (int i = 0; i < run->outputs; i++)
    for (size_t at = 0; at < run->output[i].shape.bytes / sizeof(float); at++)
      ((float *)run->output[i].data)[at] = ((const float *)run->input[0].data)[at % SIDE] - 0.5f;
  return VX_OK;
}

static const struct vx_engine engine = {.name = "plain", .network_run = run_network};

static const struct vx_detector detector = {
    .engine = &engine,
    .voxelize = {.range_max = {SIDE, SIDE, 100},
                 .voxel_size = {1, 1, 100},
                 .max_points_per_voxel = 4,
                 .max_voxels = ROWS,
                 .encoder = {1, {{weights[0], biases, COLUMNS + 6, WIDTH}}}},
    .input = "map",
    .channels_first = true,
    .maps = {{"classes", SIDE, SIDE, CLASSES, VX_FLOAT32}, {"boxes", SIDE, SIDE, VX_BOX_VALUES, VX_FLOAT32}},
    .head = VX_DECODE,
    .params.decode = {.range_max = {SIDE, SIDE, 1},
                      .num_sizes = 1,
                      .num_rotations = 1,
                      .sizes = {{2, 1, 1}},
                      .score_threshold = 0.3f,
                      .nms = {0.1f, 1000, 1000, 1, 0, 0}},
    .items = SIDE * SIDE,
};

// Two levels; the second has a quarter of the first's cells.
static struct vx_detector sparse_detector;

static void make_sparse_detector(void) {
  static float values[27 * 16 * 16];
  const struct vx_sparse_layer
      first = {values, values, COLUMNS, 16, .kernel = {3, 3, 3}, .submanifold = true},
      halves = {values, values, 16, 16, .kernel = {3, 3, 3}, .stride = {1, 2, 2}, .padding = {1, 1, 1}};
  struct error error;
  for (size_t i = 0; i < sizeof values / sizeof *values; i++) values[i] = (float)(i % 7) * 0.01f;
  sparse_detector = detector;
  sparse_detector.voxelize.encoder.num_layers = 0;
  sparse_detector.backbone = (struct vx_sparse){{2, SIDE, SIDE}, 2, {first, halves}};
  sparse_detector.max_rows = VX_MAX_SPARSE_ROWS;
  if (vx_sparse_plan_of(&sparse_detector.backbone, &sparse_detector.plan, &error) != VX_OK) fail_msg("%s", error.text);
}

// ---- jobs -----------------------------------------------------------------------------------------------------------

enum kind {
  VOXELS,
  VOXELS_BY_KEY,
  VOXELS_FILTERED,
  VOXELS_OF_HALVES,
  VOXELS_FILLED,
  VOXELS_CHOSEN,
  MEANS,
  MAPS,
  PILLARS,
  SAMPLED_VOXELS,
  SAMPLES,
  MOVED,
  IMAGE,
  SERIALIZED,
  BOXES,
  ANCHORS,
  CENTERS,
  SCATTERED,
  DETECTED,
  SPARSE,
  KINDS
};

static const struct vx_chain crop = {
    1, {{VX_STEP_TRANSFORM, {.transform = {.cropped = true, .crop = {{0, 0, 0}, {90, 90, 90}}}}}}};
static struct vx_chain_report report;

static void ask_for_voxels(enum kind kind, struct vx_job *job) {
  struct vx_voxelize *params = &job->params.voxelize;
  params->max_voxels = ROWS;
  switch (kind) {
    case VOXELS_BY_KEY: params->order = VX_ORDER_KEY; break;
    case VOXELS_FILTERED: params->block_filter = (struct vx_block_filter){true, 2, 4, 10, 99}; break;
    case VOXELS_OF_HALVES: job->inputs[VX_POINTS].dtype = VX_FLOAT16; break;
    case VOXELS_FILLED: params->fill = VX_FILL_MEAN; break;
    case VOXELS_CHOSEN:
      params->max_voxels = ROWS / 100;
      params->max_points_per_voxel = 1;
      params->choice = (struct vx_choice){VX_VOXELS_NEAR, VX_POINTS_RANDOM, 3};
      break;
    case MEANS:
      params->max_points_per_voxel = 0;
      job->tensors = UNCAPPED_TENSORS;
      break;
    case MAPS:
      params->voxel_size[2] = 50;
      params->intensity = 3;
      job->tensors = VX_CELL_MAPS | VX_PILLAR_MAPS | VX_TENSOR_BIT(VX_BEV_FEATURES);
      break;
    case PILLARS:
      params->voxel_size[2] = 100;
      params->encoder = (struct vx_encoder){2, {{weights[0], biases, COLUMNS + 6, WIDTH}, {weights[0], biases, 16, 8}}};
      job->tensors = VX_TENSOR_BIT(VX_BEV_FEATURES) | VX_TENSOR_BIT(VX_ENCODED_FEATURES);
      break;
    case SAMPLED_VOXELS: params->sampling = (struct vx_sampling){.enabled = true, .max_work = INT64_MAX}; break;
    default: break;
  }
}

static struct vx_job job_of(enum kind kind) {
  struct vx_job job = plain_params(100);
  switch (kind) {
    case SAMPLES:
      job.op = VX_FPS;
      job.params.fps = (struct vx_fps){.sampling = {.enabled = true, .max_work = INT64_MAX}};
      job.tensors = VX_TENSOR_BIT(VX_SAMPLED_INDICES) | VX_TENSOR_BIT(VX_SAMPLED_POINTS);
      break;
    case MOVED:
      job.op = VX_POINTS_OP;
      job.chain = &crop;
      job.report = &report;
      job.tensors = VX_CHAIN_TENSORS;
      break;
    case IMAGE:
      job.op = VX_RANGE_IMAGE_OP;
      job.params.image = (struct vx_range_image){.height = 64,
                                                 .width = 2048,
                                                 .fov_up = 10,
                                                 .fov_down = -30,
                                                 .num_channels = 1,
                                                 .channels = {VX_DISTANCE_CHANNEL}};
      job.tensors = VX_RANGE_IMAGE_TENSORS;
      break;
    case SERIALIZED:
      job.op = VX_SERIALIZE;
      job.chain = &crop;
      job.report = &report;
      job.params.serialize =
          (struct vx_serialize){.size = {1, 1, 1}, .num_orders = 2, .orders = {VX_CURVE_Z, VX_CURVE_HILBERT}};
      job.tensors = VX_SERIAL_TENSORS;
      break;
    case BOXES:
      return (struct vx_job){
          .op = VX_NMS,
          .params.nms = {.iou_threshold = 0.1f, .pre_max = 2000, .post_max = 2000, .class_agnostic = 1},
          .inputs = {{VX_FLOAT32, 2, {ROWS, VX_BOX_VALUES}, boxes}, {VX_FLOAT32, 1, {ROWS}, scores}},
          .tensors = VX_NMS_TENSORS};
    case ANCHORS:
      return (struct vx_job){.op = VX_DECODE,
                             .params.decode = detector.params.decode,
                             .inputs = {{VX_FLOAT32, 4, {1, SIDE, SIDE, CLASSES}, logits},
                                        {VX_FLOAT32, 4, {1, SIDE, SIDE, VX_BOX_VALUES}, moves}},
                             .tensors = VX_DECODE_TENSORS};
    case CENTERS:
      return (struct vx_job){.op = VX_DECODE_CENTER,
                             .params.center = {.range_max = {SIDE, SIDE, 1},
                                               .voxel_size = {1, 1, 1},
                                               .stride = 1,
                                               .score_threshold = 0.4f,
                                               .max_objects = 2000,
                                               .nms = {0.1f, 2000, 2000, 1, 0, 0}},
                             .inputs = {{VX_FLOAT32, 4, {1, SIDE, SIDE, CLASSES}, logits},
                                        {VX_FLOAT32, 4, {1, SIDE, SIDE, 2}, dims},
                                        {VX_FLOAT32, 4, {1, SIDE, SIDE, 1}, dims},
                                        {VX_FLOAT32, 4, {1, SIDE, SIDE, 3}, dims},
                                        {VX_FLOAT32, 4, {1, SIDE, SIDE, 2}, dims}},
                             .tensors = VX_DECODE_TENSORS};
    case SCATTERED:
      return (struct vx_job){.op = VX_SCATTER,
                             .params.scatter = {{SIDE, SIDE, 1}},
                             .inputs = {{VX_FLOAT32, 2, {ROWS, WIDTH}, features}, {VX_INT32, 2, {ROWS, 4}, coords}},
                             .tensors = VX_SCATTER_TENSORS};
    case SPARSE:
      job.op = VX_BACKBONE;
      job.params.detect = vx_detect_of(&sparse_detector);
      job.tensors = VX_BACKBONE_TENSORS;
      break;
    case DETECTED:
      job.op = VX_DETECT;
      job.params.detect = vx_detect_of(&detector);
      job.tensors = VX_DECODE_TENSORS | VX_TENSOR_BIT(VX_HEAD_CLS_PREDS);
      break;
    default: ask_for_voxels(kind, &job); break;
  }
  return job;
}

// ---- running them ---------------------------------------------------------------------------------------------------

struct asker {
  struct outcome outcome;  // first, since give_output takes a pointer to it
  int asked, most;         // calls of `stopped`, which returns true from call `most` on
  struct vx_counts section_counts[SECTIONS];
};

static bool is_stopped(void *ctx) {
  struct asker *asker = ctx;
  return ++asker->asked >= asker->most;
}

static void run(enum kind kind, int most, struct asker *asker) {
  static const struct vx_caller caller = {.output = give_output, .stopped = is_stopped};
  static const int32_t samples[] = {300}, sections[SECTIONS] = {ROWS / 2, ROWS / 4, ROWS / 4};
  const struct vx_job asked = job_of(kind);
  bool of_map = asked.inputs[0].rank == VX_MAX_RANK;
  const int32_t counts[] = {!of_map ? ROWS : kind == CENTERS ? SIDE * SIDE * CLASSES : SIDE * SIDE};
  const void *rows = kind == VOXELS_OF_HALVES ? (const void *)halves : points;
  struct vx_job job = job_over(&asked, asked.inputs[0].data ? asked.inputs[0].data : rows, 1, counts);
  *asker = (struct asker){.most = most};
  job.sample_counts = samples;
  job.caller = &caller;
  job.ctx = asker;
  job.row_counts = asker->outcome.row_counts;
  if (vx_operations[job.op].sectioned) job.sections = (struct vx_sections){SECTIONS, sections, asker->section_counts};
  asker->outcome.status = backend->run(lane, &job, &asker->outcome.error);
  asker->outcome.counts = job.counts;
}

static void assert_whole(const struct asker *asker, const struct asker *whole) {
  const struct outcome *outcome = &asker->outcome;
  if (outcome->status != VX_OK) fail_msg("%s", outcome->error.text);
  assert_memory_equal(&outcome->counts, &whole->outcome.counts, sizeof outcome->counts);
  assert_memory_equal(asker->section_counts, whole->section_counts, sizeof asker->section_counts);
  assert_int_equal(outcome->layout.bytes, whole->outcome.layout.bytes);
  for (int t = 0; t < VX_TENSOR_COUNT; t++)
    if (outcome->layout.tensors & VX_TENSOR_BIT(t))
      assert_memory_equal(tensor(outcome, t), tensor(&whole->outcome, t), outcome->layout.shape[t].bytes);
}

static void check_stopped_at(enum kind kind, int question, const struct asker *whole) {
  static struct asker asker;
  run(kind, question, &asker);
  if (asker.outcome.status != VX_STOPPED) fail_msg("kind %d: not stopped at call %d of `stopped`", kind, question);
  assert_int_equal(asker.asked, question);  // not called again
  assert_true(strlen(asker.outcome.error.text) > 0);
  free(asker.outcome.block);
  run(kind, INT32_MAX, &asker);
  assert_whole(&asker, whole);
  free(asker.outcome.block);
}

// A job calls `stopped` at least once for each VX_STRIDE rows.
static void jobs_of_every_kind_can_be_stopped(void **state) {
  (void)state;
  for (enum kind kind = 0; kind < KINDS; kind++) {
    static struct asker whole;
    run(kind, INT32_MAX, &whole);
    assert_whole(&whole, &whole);
    if (whole.asked < whole.outcome.counts.received / VX_STRIDE)
      fail_msg("kind %d: %lld rows, but only %d calls of `stopped`", kind, (long long)whole.outcome.counts.received,
               whole.asked);
    for (int question = 1; question <= whole.asked; question += 1 + whole.asked * PART / 6)
      check_stopped_at(kind, question, &whole);
    check_stopped_at(kind, whole.asked, &whole);
    free(whole.outcome.block);
  }
}

// ---- passes ---------------------------------------------------------------------------------------------------------

static bool say(void *ctx) {
  int *left = ctx;
  return (*left)-- <= 0;
}

static int64_t pass_over(struct vx_stop *stop, int64_t begin, int64_t count) {
  int64_t rows = 0;
  VX_EACH_ROW(stop, i, begin, count) rows++;
  return rows;
}

static void once_stopped_no_pass_runs(void **state) {
  (void)state;
  int left = 2;
  struct vx_stop stop = {say, &left, 0, false};
  struct error error;
  assert_int_equal(pass_over(&stop, 0, 0), 0);
  assert_int_equal(pass_over(&stop, 7, VX_STRIDE - 1), VX_STRIDE - 8);
  assert_int_equal(left, 2);                                            // too few rows for a call
  assert_int_equal(pass_over(&stop, 0, 3 * VX_STRIDE), 2 * VX_STRIDE);  // the third call returns true
  assert_int_equal(vx_stop_status(&stop, &error), VX_STOPPED);
  left = 1000;
  assert_int_equal(pass_over(&stop, 0, 1), 0);
  assert_true(vx_stopped(&stop, 1) && vx_stop_now(&stop));
  assert_int_equal(left, 1000);
  assert_int_equal(pass_over(&(struct vx_stop){0}, 0, 5 * VX_STRIDE), 5 * VX_STRIDE);
}

static void memory_is_filled_and_copied_stride_by_stride(void **state) {
  (void)state;
  enum { STRIDE_BYTES = 4 << 20, BYTES = 2 * STRIDE_BYTES + 5 };
  static unsigned char from[BYTES + 1], to[BYTES + 1];
  for (size_t bytes = 0; bytes <= BYTES; bytes += bytes < 200 ? 1 : STRIDE_BYTES / 3) {
    struct vx_stop never = {0};
    memset(from, 0, bytes + 1);
    memset(to, 9, bytes + 1);
    vx_fill(&never, from, -1, bytes);
    assert_int_equal(from[bytes], 0);
    vx_copy(&never, to, from, bytes);
    assert_memory_equal(to, from, bytes);
    assert_int_equal(to[bytes], 9);
    unsigned char all = 255;
    for (size_t i = 0; i < bytes; i++) all &= from[i];
    assert_int_equal(all, 255);
  }
  int left = 1;
  struct vx_stop stop = {say, &left, 0, false};
  memset(to, 9, sizeof to);
  vx_fill(&stop, to, 0, BYTES);
  assert_int_equal(to[STRIDE_BYTES - 1], 0);
  assert_int_equal(to[STRIDE_BYTES], 9);
  vx_copy(&stop, to, from, 1);
  assert_int_equal(to[0], 0);
}

int main(void) {
  // A GPU calls `stopped` at intervals of time, and only in some operations.
  if (setenv("VOXELD_TEST_BACKEND", "cpu", 1) != 0) return 1;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(jobs_of_every_kind_can_be_stopped),
      cmocka_unit_test(once_stopped_no_pass_runs),
      cmocka_unit_test(memory_is_filled_and_copied_stride_by_stride),
  };
  return cmocka_run_group_tests(tests, make_rows, close_backend);
}
