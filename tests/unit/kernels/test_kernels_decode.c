// Decoding of both heads as a job, with small maps. tests/oracle checks large maps.
#include "kernels/centers.h"
#include "kernels/decode.h"
#include "tests/unit/kernels/kernels_reference.h"

static void assert_fates_add_up(const struct outcome *outcome) {
  const struct vx_counts *counts = &outcome->counts;
  if (outcome->status != VX_OK) fail_msg("%s", outcome->error.text);
  assert_int_equal(counts->received, counts->kept + counts->below_threshold + counts->over_max_objects +
                                         counts->invalid + counts->outside + counts->over_pre_max + counts->suppressed +
                                         counts->over_post_max);
}

static void assert_indices(const struct outcome *outcome, int32_t count, const int32_t *indices) {
  assert_fates_add_up(outcome);
  assert_int_equal(outcome->counts.kept, count);
  assert_memory_equal(tensor(outcome, VX_BOX_INDICES), indices, (size_t)count * sizeof *indices);
}

// ---- anchors --------------------------------------------------------------------------------------------------------

enum { CELLS = 4, CLASSES = 2 };  // a row of cells, one anchor each

static struct vx_job anchor_job(const float *logits, const float *moves) {
  return (struct vx_job){
      .op = VX_DECODE,
      .params.decode = {.range_max = {30, 1, 1},
                        .num_sizes = 1,
                        .num_rotations = 1,
                        .sizes = {{4, 2, 1}},
                        .dir_bins = 2,
                        .score_threshold = 0.5f,
                        .nms = {0.1f, 100, 100, 1, 0, 0}},
      .inputs = {{VX_FLOAT32, 4, {1, 1, CELLS, CLASSES}, logits}, {VX_FLOAT32, 4, {1, 1, CELLS, VX_BOX_VALUES}, moves}},
      .tensors = VX_DECODE_TENSORS};
}

static const float moves[CELLS][VX_BOX_VALUES];

static struct outcome run_anchors(const struct vx_job *asked) {
  return run_on(lane, asked, asked->inputs[0].data, 1, (int32_t[]){CELLS});
}

static void anchors_become_boxes(void **state) {
  (void)state;
  const float logits[CELLS][CLASSES] = {{-1, 2}, {NAN, -3}, {1, 1}, {3, NAN}};
  const struct vx_job asked = anchor_job(logits[0], moves[0]);
  struct outcome outcome = run_anchors(&asked);
  assert_indices(&outcome, 3, (int32_t[]){3, 0, 2});
  assert_int_equal(outcome.counts.below_threshold, 1);
  assert_memory_equal(tensor(&outcome, VX_DECODED_LABELS), ((int32_t[]){0, 1, 0}), 3 * sizeof(int32_t));
  assert_memory_equal(
      tensor(&outcome, VX_DECODED_BOXES),
      ((float[3][VX_BOX_VALUES]){{30, 0, 0.5f, 4, 2, 1, 0}, {0, 0, 0.5f, 4, 2, 1, 0}, {20, 0, 0.5f, 4, 2, 1, 0}}),
      3 * sizeof moves[0]);
  assert_true(((const float *)tensor(&outcome, VX_DECODED_SCORES))[1] == vx_sigmoid(2));
  free(outcome.block);
}

static void anchors_have_fates(void **state) {
  (void)state;
  const float logits[CELLS][CLASSES] = {{1, 0}, {4, 0}, {-1, -1}, {2, 3}};
  float moved[CELLS][VX_BOX_VALUES] = {{0}};
  moved[0][0] = (float)(10 / sqrt(20));  // to the position of box 1
  moved[3][3] = 200;                     // infinitely long
  struct vx_job asked = anchor_job(logits[0], moved[0]);
  struct outcome outcome = run_anchors(&asked);
  assert_indices(&outcome, 1, (int32_t[]){1});
  assert_int_equal(outcome.counts.invalid, 1);
  assert_int_equal(outcome.counts.suppressed, 1);
  free(outcome.block);
  asked.params.decode.nms.pre_max = 1;
  outcome = run_anchors(&asked);
  assert_int_equal(outcome.counts.over_pre_max, 1);
  assert_fates_add_up(&outcome);
  free(outcome.block);
}

static void directions_turn_boxes(void **state) {
  (void)state;
  const float logits[CELLS][CLASSES] = {{1, 0}, {1, 0}, {1, 0}, {1, 0}};
  const float bins[CELLS][2] = {{1, 0}, {0, 1}, {1, 1}, {NAN, 0}};  // {1, 1}: the first bin wins
  struct vx_job asked = anchor_job(logits[0], moves[0]);
  asked.inputs[VX_DIR_CLS_PREDS] = (struct vx_input){VX_FLOAT32, 4, {1, 1, CELLS, 2}, bins};
  struct outcome outcome = run_anchors(&asked);
  assert_indices(&outcome, 4, (int32_t[]){0, 1, 2, 3});
  const float *boxes = tensor(&outcome, VX_DECODED_BOXES);
  const float headings[CELLS] = {0, (float)VX_PI, 0, (float)VX_PI};
  for (int i = 0; i < CELLS; i++) assert_true(boxes[i * VX_BOX_VALUES + 6] == headings[i]);
  free(outcome.block);
}

static void boxes_may_have_a_velocity(void **state) {
  (void)state;
  const float logits[CELLS][CLASSES] = {{1, 0}, {1, 0}, {1, 0}, {-9, -9}};
  const float moving[CELLS][VX_MOVING_BOX_VALUES] = {
      {[7] = 1.5f, [8] = -2}, {[7] = NAN}, {[8] = 1e30f}, {[8] = INFINITY}};
  struct vx_job asked = anchor_job(logits[0], moving[0]);
  asked.params.decode.velocity = 1;
  asked.inputs[VX_BOX_PREDS].dims[3] = VX_MOVING_BOX_VALUES;
  struct outcome outcome = run_anchors(&asked);
  assert_indices(&outcome, 2, (int32_t[]){0, 2});
  assert_int_equal(outcome.counts.invalid, 1);
  const float *boxes = tensor(&outcome, VX_DECODED_BOXES);
  assert_memory_equal(boxes + VX_BOX_VALUES, ((float[]){1.5f, -2}), 2 * sizeof *boxes);
  assert_memory_equal(boxes + VX_MOVING_BOX_VALUES + VX_BOX_VALUES, ((float[]){0, 1e30f}), 2 * sizeof *boxes);
  free(outcome.block);
}

static void maps_must_fit(void **state) {
  (void)state;
  const float logits[CELLS][CLASSES] = {{0}};
  struct vx_job asked = anchor_job(logits[0], moves[0]);
  asked.inputs[VX_BOX_PREDS].dims[2] = CELLS - 1;
  struct outcome outcome = run_anchors(&asked);
  assert_int_equal(outcome.status, VX_REFUSED);
  assert_non_null(strstr(outcome.error.text, "box_preds has a wrong type or shape"));
}

// ---- centres --------------------------------------------------------------------------------------------------------

// A task with one class and a task with two, on a row of cells.
enum { TASKS = 2, ALL = 3 };

static const float offsets[CELLS][TASKS][2], heights[CELLS][TASKS], dims[CELLS][TASKS][3];
static const float ahead[CELLS][TASKS][2] = {{{1, 0}, {0, 1}}, {{1, 0}, {0, 1}}, {{1, 0}, {0, 1}}, {{1, 0}, {0, 1}}};

static struct vx_job center_job(const float *logits) {
  return (struct vx_job){.op = VX_DECODE_CENTER,
                         .params.center = {.range_min = {-10, 5, 0},
                                           .range_max = {100, 100, 1},
                                           .voxel_size = {0.5f, 1, 1},
                                           .stride = 8,
                                           .tasks.count = TASKS,
                                           .tasks.classes = {1, 2},
                                           .score_threshold = 0.5f,
                                           .max_objects = 100,
                                           .nms = {0.1f, 100, 100, 1, 0, 0}},
                         .inputs = {{VX_FLOAT32, 4, {1, 1, CELLS, ALL}, logits},
                                    {VX_FLOAT32, 4, {1, 1, CELLS, TASKS * 2}, offsets},
                                    {VX_FLOAT32, 4, {1, 1, CELLS, TASKS}, heights},
                                    {VX_FLOAT32, 4, {1, 1, CELLS, TASKS * 3}, dims},
                                    {VX_FLOAT32, 4, {1, 1, CELLS, TASKS * 2}, ahead}},
                         .tensors = VX_DECODE_TENSORS};
}

static struct outcome run_centers(const struct vx_job *asked) {
  return run_on(lane, asked, asked->inputs[0].data, 1, (int32_t[]){CELLS * ALL});
}

static void boxes_are_listed_task_by_task(void **state) {
  (void)state;
  const float logits[CELLS][ALL] = {{0, 1, 1}, {2, 0, 0}, {1, 0, 3}, {NAN, -1, -INFINITY}};  // 0 is too little
  const struct vx_job asked = center_job(logits[0]);
  struct outcome outcome = run_centers(&asked);
  // At cell 0, both classes of the second task have the same logit and box: the first class wins.
  assert_indices(&outcome, 4, (int32_t[]){1, 2, 8 + 2, 4 + 0});
  assert_memory_equal(tensor(&outcome, VX_DECODED_LABELS), ((int32_t[]){0, 0, 2, 1}), 4 * sizeof(int32_t));
  assert_int_equal(outcome.counts.below_threshold, 7);
  assert_int_equal(outcome.counts.suppressed, 1);
  assert_int_equal(outcome.row_counts[0], 4);
  const float *boxes = tensor(&outcome, VX_DECODED_BOXES);
  assert_memory_equal(boxes, ((float[VX_BOX_VALUES]){-6, 5, 0, 1, 1, 1, 0}), VX_BOX_VALUES * sizeof *boxes);
  assert_memory_equal(boxes + 2 * VX_BOX_VALUES, ((float[VX_BOX_VALUES]){-2, 5, 0, 1, 1, 1, (float)VX_HALF_PI}),
                      VX_BOX_VALUES * sizeof *boxes);
  free(outcome.block);
}

static void centers_have_fates(void **state) {
  (void)state;
  const float logits[CELLS][ALL] = {{5, 0, 0}, {4, 0, 0}, {3, 0, 0}, {2, 0, 0}};
  float broken[CELLS][TASKS][2];
  memcpy(broken, ahead, sizeof broken);
  broken[0][0][1] = NAN;
  struct vx_job asked = center_job(logits[0]);
  asked.inputs[VX_ROT].data = broken;
  asked.params.center.max_objects = 3;
  asked.params.center.limited = 1;
  const float min[3] = {-6, 5, 0}, max[3] = {-6, 5, 0};  // a single point; the limits are inclusive
  memcpy(asked.params.center.center_min, min, sizeof min);
  memcpy(asked.params.center.center_max, max, sizeof max);
  struct outcome outcome = run_centers(&asked);
  assert_indices(&outcome, 1, (int32_t[]){1});
  assert_int_equal(outcome.counts.invalid, 1);
  assert_int_equal(outcome.counts.outside, 1);
  assert_int_equal(outcome.counts.over_max_objects, 1);
  free(outcome.block);
}

static void circles_suppress(void **state) {
  (void)state;
  const float logits[CELLS][ALL] = {{5, 0, 2}, {4, 0, 1}, {3, 0, 0}, {2, 0, 0}};  // cells are 4 m apart
  struct vx_job asked = center_job(logits[0]);
  asked.params.center.nms.circle = 1;
  asked.params.center.num_radii = 2;
  asked.params.center.radii[0] = 4;
  asked.params.center.radii[1] = 3.9f;
  struct outcome outcome = run_centers(&asked);
  assert_indices(&outcome, 4, (int32_t[]){0, 2, 8 + 0, 8 + 1});
  assert_int_equal(outcome.counts.suppressed, 2);
  free(outcome.block);
}

static void velocities_make_longer_boxes(void **state) {
  (void)state;
  const float logits[CELLS][ALL] = {{1, -1, -1}, {-1, -1, -1}, {-1, -1, -1}, {2, -1, -1}};
  float moving[CELLS][TASKS][2] = {{{3, 4}}};
  moving[3][0][0] = INFINITY;
  struct vx_job asked = center_job(logits[0]);
  asked.inputs[VX_VEL] = (struct vx_input){VX_FLOAT32, 4, {1, 1, CELLS, TASKS * 2}, moving};
  asked.params.center.rot_order = VX_SIN_COS;
  struct outcome outcome = run_centers(&asked);
  assert_indices(&outcome, 1, (int32_t[]){0});
  assert_int_equal(outcome.counts.invalid, 1);
  assert_int_equal(outcome.layout.shape[VX_DECODED_BOXES].dims[1], VX_MOVING_BOX_VALUES);
  assert_memory_equal(tensor(&outcome, VX_DECODED_BOXES), ((float[]){-10, 5, 0, 1, 1, 1, (float)VX_HALF_PI, 3, 4}),
                      VX_MOVING_BOX_VALUES * sizeof(float));
  free(outcome.block);
}

// Cell 0 has a higher logit than cell 1 but half its overlap, so its rectified score is lower.
static void overlaps_rectify_scores(void **state) {
  (void)state;
  const float logits[CELLS][ALL] = {{2, 0, 0}, {1, 0, 0}, {1, 0, 0}, {3, 0, 0}};
  const float ious[CELLS][TASKS] = {{0}, {1}, {2}, {NAN}};  // overlap = min((iou + 1) / 2, 1)
  struct vx_job asked = center_job(logits[0]);
  asked.inputs[VX_IOU] = (struct vx_input){VX_FLOAT32, 4, {1, 1, CELLS, TASKS}, ious};
  asked.params.center.num_score_powers = 1;
  asked.params.center.score_powers[0] = 1;
  asked.params.center.num_iou_powers = ALL;
  asked.params.center.iou_powers[0] = 2;
  asked.params.center.rectified_threshold = -1;
  struct outcome outcome = run_centers(&asked);
  assert_indices(&outcome, 3, (int32_t[]){1, 2, 0});
  assert_memory_equal(tensor(&outcome, VX_DECODED_SCORES), ((float[]){vx_sigmoid(1), vx_sigmoid(1), vx_sigmoid(2) / 4}),
                      3 * sizeof(float));
  assert_int_equal(outcome.counts.invalid, 1);
  free(outcome.block);
  asked.params.center.rectified_threshold = vx_sigmoid(2) / 4;  // a score that equals it is too low
  asked.params.center.max_objects = 2;                          // cells 3 and 0
  outcome = run_centers(&asked);
  assert_indices(&outcome, 0, NULL);
  assert_int_equal(outcome.counts.over_max_objects, 2);
  assert_int_equal(outcome.counts.below_threshold, ALL * CELLS - 2 - 1 - 1 + 1);
  free(outcome.block);
}

// With best_class, each cell gives one box per task, of the class with the highest logit; of equal logits, the first.
static void a_cell_may_give_its_best_class(void **state) {
  (void)state;
  const float logits[CELLS][ALL] = {{0, 1, 2}, {0, 3, 3}, {0, NAN, 1}, {0, NAN, -1}};  // 0 is too little
  struct vx_job asked = center_job(logits[0]);
  asked.params.center.best_class = 1;
  struct outcome outcome = run_on(lane, &asked, logits, 1, (int32_t[]){CELLS * TASKS});
  assert_indices(&outcome, 3, (int32_t[]){CELLS + 1, 2 * CELLS, 2 * CELLS + 2});
  assert_int_equal(outcome.counts.received, CELLS * TASKS);
  assert_int_equal(outcome.counts.below_threshold, CELLS + 1);
  free(outcome.block);
}

static void powers_are_near(void **state) {
  (void)state;
  for (int halvings = 0; halvings <= 149; halvings++)
    for (int step = 0; step <= 3 * VX_MAX_POWER; step++) {
      float x = ldexpf(halvings % 2 ? 0.7f : 1, -halvings), power = (float)step / 3;
      double expected = pow((double)x, (double)power);
      assert_true(expected < 1e-50 || fabs(vx_power(x, power) / expected - 1) < 1e-13);
    }
  assert_true(vx_power(1, 0.7f) == 1 && vx_power(0, 0) == 1 && vx_power(0, 0.1f) == 0);
}

static void tasks_must_have_all_classes(void **state) {
  (void)state;
  const float logits[CELLS][ALL] = {{0}};
  struct vx_job asked = center_job(logits[0]);
  asked.params.center.tasks.classes[1] = 3;
  struct outcome outcome = run_centers(&asked);
  assert_int_equal(outcome.status, VX_REFUSED);
  assert_non_null(strstr(outcome.error.text, "heatmap has a wrong type or shape"));
}

// ---- thresholds -----------------------------------------------------------------------------------------------------

static void the_least_logit_is_the_least(void **state) {
  (void)state;
  const float thresholds[] = {0.01f, 0.1f, 0.25f, 0.5f, 0.7f, 0.999f};
  for (size_t i = 0; i < sizeof thresholds / sizeof *thresholds; i++) {
    float least = vx_least_logit(thresholds[i], false), above = vx_least_logit(thresholds[i], true);
    assert_true(vx_sigmoid(least) >= thresholds[i] && vx_sigmoid(nextafterf(least, -200)) < thresholds[i]);
    assert_true(vx_sigmoid(above) > thresholds[i] && vx_sigmoid(nextafterf(above, -200)) <= thresholds[i]);
  }
  assert_true(vx_least_logit(0.1f, false) == -2.1972244f);
  assert_true(vx_least_logit(0, false) == -INFINITY);
  assert_true(isnan(vx_least_logit(1, true)));  // no score is above 1
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(anchors_become_boxes),
      cmocka_unit_test(anchors_have_fates),
      cmocka_unit_test(directions_turn_boxes),
      cmocka_unit_test(boxes_may_have_a_velocity),
      cmocka_unit_test(maps_must_fit),
      cmocka_unit_test(boxes_are_listed_task_by_task),
      cmocka_unit_test(centers_have_fates),
      cmocka_unit_test(circles_suppress),
      cmocka_unit_test(velocities_make_longer_boxes),
      cmocka_unit_test(overlaps_rectify_scores),
      cmocka_unit_test(a_cell_may_give_its_best_class),
      cmocka_unit_test(powers_are_near),
      cmocka_unit_test(tasks_must_have_all_classes),
      cmocka_unit_test(the_least_logit_is_the_least),
  };
  return cmocka_run_group_tests(tests, open_backend, close_backend);
}
