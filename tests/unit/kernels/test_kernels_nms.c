// Non-maximum suppression as a job, and its functions for overlaps and ranks. tests/oracle checks many boxes.
#include "kernels/overlap.h"
#include "kernels/rank.h"
#include "tests/unit/kernels/kernels_reference.h"

enum { COUNT = 6 };

// Boxes 0, 1 and 2 overlap. Box 5 equals box 3, but has another class. Box 4 is invalid.
static const float boxes[COUNT][VX_BOX_VALUES] = {{0, 0, 0, 4, 2, 1, 0},  {1, 0, 0, 4, 2, 1, 0},
                                                  {1, 0, 0, 4, 2, 1, 1},  {20, 0, 0, 2, 2, 2, 0},
                                                  {0, 0, 0, -4, 2, 1, 0}, {20, 0, 0, 2, 2, 2, 0}};
static const float scores[COUNT] = {0.5f, 0.9f, 0.9f, 0.1f, 1, 0.05f};
static const int32_t labels[COUNT] = {0, 0, 0, 1, 0, 2};

static struct vx_job nms_job(int64_t count) {
  return (struct vx_job){.op = VX_NMS,
                         .params.nms = {.iou_threshold = 0.1f, .pre_max = 100, .post_max = 100, .class_agnostic = 1},
                         .inputs = {{VX_FLOAT32, 2, {count, VX_BOX_VALUES}, boxes}, {VX_FLOAT32, 1, {count}, scores}},
                         .tensors = VX_NMS_TENSORS};
}

static void assert_kept(const struct outcome *outcome, int32_t count, const int32_t *indices) {
  if (outcome->status != VX_OK) fail_msg("%s", outcome->error.text);
  const struct vx_counts *counts = &outcome->counts;
  assert_int_equal(counts->kept, count);
  assert_int_equal(counts->received,
                   counts->kept + counts->invalid + counts->over_pre_max + counts->suppressed + counts->over_post_max);
  assert_int_equal(outcome->layout.shape[VX_KEPT_INDICES].dims[0], count);
  assert_memory_equal(tensor(outcome, VX_KEPT_INDICES), indices, (size_t)count * sizeof *indices);
}

static struct outcome run_boxes(const struct vx_job *asked, int32_t clouds, const int32_t *counts) {
  return run_on(lane, asked, boxes, clouds, counts);
}

static void the_best_box_suppresses_others(void **state) {
  (void)state;
  const struct vx_job asked = nms_job(COUNT);
  struct outcome outcome = run_boxes(&asked, 1, (int32_t[]){COUNT});
  assert_kept(&outcome, 2, (int32_t[]){1, 3});  // if scores are equal, the first box wins
  assert_int_equal(outcome.counts.invalid, 1);
  assert_int_equal(outcome.counts.suppressed, 3);
  assert_int_equal(outcome.row_counts[0], 2);
  free(outcome.block);
}

static void classes_do_not_meet(void **state) {
  (void)state;
  struct vx_job asked = nms_job(COUNT);
  asked.params.nms.class_agnostic = 0;
  asked.inputs[VX_LABELS] = (struct vx_input){VX_INT32, 1, {COUNT}, labels};
  struct outcome outcome = run_boxes(&asked, 1, (int32_t[]){COUNT});
  assert_kept(&outcome, 3, (int32_t[]){1, 3, 5});
  free(outcome.block);
}

static void clouds_do_not_meet(void **state) {
  (void)state;
  const struct vx_job asked = nms_job(COUNT);
  struct outcome outcome = run_boxes(&asked, 3, (int32_t[]){2, 0, 4});
  assert_kept(&outcome, 3, (int32_t[]){1, 2, 3});
  assert_int_equal(outcome.row_counts[0], 1);
  assert_int_equal(outcome.row_counts[1], 0);
  assert_int_equal(outcome.row_counts[2], 2);
  free(outcome.block);
}

static void caps_are_counted(void **state) {
  (void)state;
  struct vx_job asked = nms_job(COUNT);
  asked.params.nms.pre_max = 3;
  struct outcome outcome = run_boxes(&asked, 1, (int32_t[]){COUNT});
  assert_kept(&outcome, 1, (int32_t[]){1});
  assert_int_equal(outcome.counts.over_pre_max, 2);
  assert_int_equal(outcome.counts.suppressed, 2);
  free(outcome.block);
  asked = nms_job(COUNT);
  asked.params.nms.post_max = 1;
  outcome = run_boxes(&asked, 1, (int32_t[]){COUNT});
  assert_kept(&outcome, 1, (int32_t[]){1});
  assert_int_equal(outcome.counts.suppressed, 0);
  assert_int_equal(outcome.counts.over_post_max, 4);
  free(outcome.block);
}

static void no_boxes_give_no_boxes(void **state) {
  (void)state;
  const struct vx_job asked = nms_job(0);
  struct outcome outcome = run_boxes(&asked, 1, (int32_t[]){0});
  assert_kept(&outcome, 0, NULL);
  free(outcome.block);
}

static bool stop(void *ctx) {
  (void)ctx;
  return true;
}

// No box suppresses another, so each is compared with all later ones: long enough for a GPU, which first calls
// `stopped` after a millisecond.
static void long_comparisons_can_be_stopped(void **state) {
  enum { MANY = 1 << 18 };
  static float apart[MANY][VX_BOX_VALUES], same[MANY];
  struct outcome outcome = {0};
  (void)state;
  for (int i = 0; i < MANY; i++) memcpy(apart[i], (const float[]){10.0f * (float)i, 0, 0, 1, 1, 1, 0}, sizeof *apart);
  struct vx_job asked = nms_job(MANY);
  asked.params.nms.pre_max = asked.params.nms.post_max = MANY;
  asked.inputs[VX_SCORES].data = same;
  struct vx_job job = job_over(&asked, apart, 1, (int32_t[]){MANY});
  job.caller = &(const struct vx_caller){.output = give_output, .stopped = stop};
  job.ctx = &outcome;
  job.row_counts = outcome.row_counts;
  assert_int_equal(backend->run(lane, &job, &outcome.error), VX_STOPPED);
  assert_null(outcome.block);
}

static enum vx_lane_use use_of(struct vx_job *job, int32_t clouds, int32_t rows) {
  const int32_t counts[] = {rows, rows, rows};
  job->num_clouds = clouds;
  return vx_lane_use_of(job, counts);
}

static void many_comparisons_are_long(void **state) {
  (void)state;
  enum { SIDE = 2048 };  // its square is VX_QUICK_PAIRS
  assert_int_equal((int64_t)SIDE * SIDE, VX_QUICK_PAIRS);
  const struct vx_nms all = {.pre_max = VX_MAX_RANKED, .post_max = VX_MAX_RANKED};
  const struct vx_nms few_ranked = {.pre_max = SIDE, .post_max = VX_MAX_RANKED};
  const struct vx_nms few_kept = {.pre_max = 2 * SIDE, .post_max = SIDE / 2};
  const struct {
    struct vx_nms nms;
    int32_t clouds, rows;
    enum vx_lane_use use;
  } cases[] = {{all, 0, 0, VX_LANE_QUICK},           {all, 1, SIDE, VX_LANE_QUICK},
               {all, 1, SIDE + 1, VX_LANE_LONG},     {all, 3, SIDE, VX_LANE_LONG},
               {all, 3, SIDE / 2, VX_LANE_QUICK},    {few_ranked, 1, INT32_MAX, VX_LANE_QUICK},
               {few_ranked, 2, SIDE, VX_LANE_LONG},  {few_kept, 1, INT32_MAX, VX_LANE_QUICK},
               {few_kept, 2, SIDE, VX_LANE_QUICK},   {few_kept, 3, SIDE, VX_LANE_LONG},
               {few_kept, 2, 2 * SIDE, VX_LANE_LONG}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct vx_job nms = {.op = VX_NMS, .params.nms = cases[i].nms};
    struct vx_job decode = {.op = VX_DECODE, .params.decode.nms = cases[i].nms};
    struct vx_job center = {.op = VX_DECODE_CENTER,
                            .params.center = {.max_objects = VX_MAX_RANKED, .nms = cases[i].nms}};
    assert_int_equal(use_of(&nms, cases[i].clouds, cases[i].rows), cases[i].use);
    assert_int_equal(use_of(&decode, cases[i].clouds, cases[i].rows), cases[i].use);
    assert_int_equal(use_of(&center, cases[i].clouds, cases[i].rows), cases[i].use);
  }
  struct vx_job tasks = {.op = VX_DECODE_CENTER,
                         .params.center = {.tasks.count = 4, .max_objects = SIDE / 2, .nms = all}};
  assert_int_equal(use_of(&tasks, 1, INT32_MAX), VX_LANE_QUICK);
  tasks.params.center.tasks.count = 5;
  assert_int_equal(use_of(&tasks, 1, INT32_MAX), VX_LANE_LONG);
  struct vx_job scatter = {.op = VX_SCATTER};
  assert_int_equal(use_of(&scatter, 3, INT32_MAX), VX_LANE_QUICK);
  struct vx_job fps = {.op = VX_FPS, .params.fps.sampling.enabled = true};
  assert_int_equal(use_of(&fps, 1, 1), VX_LANE_LONG);
  struct vx_job detect = {.op = VX_DETECT}, backbone = {.op = VX_BACKBONE};
  assert_int_equal(use_of(&detect, 3, INT32_MAX), VX_LANE_DETECT);
  assert_int_equal(use_of(&backbone, 3, 0), VX_LANE_DETECT);
}

static void inputs_must_fit(void **state) {
  (void)state;
  struct vx_job asked[3] = {nms_job(COUNT), nms_job(COUNT), nms_job(COUNT)};
  asked[0].inputs[VX_SCORES].dims[0] = COUNT - 1;
  asked[1].inputs[VX_BOXES].dims[1] = 6;
  asked[2].inputs[VX_LABELS] = (struct vx_input){VX_FLOAT32, 1, {COUNT}, scores};
  for (int i = 0; i < 3; i++) {
    struct outcome outcome = run_boxes(&asked[i], 1, (int32_t[]){COUNT});
    assert_int_equal(outcome.status, VX_REFUSED);
    assert_non_null(strstr(outcome.error.text, "has a wrong type or shape"));
  }
}

// `a` has the higher rank.
static double overlap_of(const float a[VX_BOX_VALUES], const float b[VX_BOX_VALUES]) {
  struct vx_rectangle first = vx_rectangle_of(a), second = vx_rectangle_of(b);
  return vx_overlap(&first, &second);
}

static void overlaps_are_those_of_geometry(void **state) {
  (void)state;
  const float a[VX_BOX_VALUES] = {0, 0, 0, 4, 2, 1, 0}, shifted[VX_BOX_VALUES] = {2, 1, 0, 4, 2, 1, 0},
              beside[VX_BOX_VALUES] = {4, 0, 0, 4, 2, 1, 0}, corner[VX_BOX_VALUES] = {4, 2, 0, 4, 2, 1, 0},
              flat[VX_BOX_VALUES] = {0, 0, 0, 4, 0, 1, 0}, inside[VX_BOX_VALUES] = {0.5f, 0, 0, 0.5f, 0.25f, 1, 0.7f};
  assert_true(overlap_of(a, a) == 8);
  assert_true(overlap_of(a, shifted) == 2);
  assert_true(overlap_of(a, beside) == 0);
  assert_true(overlap_of(a, corner) == 0);
  assert_true(overlap_of(a, flat) == 0);
  assert_true(fabs(overlap_of(a, inside) - 0.125) < 1e-15);
  // A square and the same square turned by 45 degrees intersect in a regular octagon.
  const float square[VX_BOX_VALUES] = {7, 8, 0, 2, 2, 1, 0}, turned[VX_BOX_VALUES] = {7, 8, 0, 2, 2, 1, 0.78539816f};
  assert_true(fabs(overlap_of(square, turned) - 8 * (sqrt(2) - 1)) < 1e-7);
}

static void elementary_functions_are_close(void **state) {
  (void)state;
  for (int i = -10000; i <= 10000; i++) {
    double sine, cosine, x = i * 0.01;
    assert_true(fabs(vx_exp(x) / exp(x) - 1) < 1e-14);
    vx_sincos(x * 600, &sine, &cosine);
    assert_true(fabs(sine - sin(x * 600)) < 1e-15 && fabs(cosine - cos(x * 600)) < 1e-15);
    assert_true(fabs(vx_atan2(x, 1 - x * x) - atan2(x, 1 - x * x)) < 2e-15);
    assert_true(vx_sigmoid((float)x) <= vx_sigmoid((float)x + 0.01f));
  }
  assert_true(vx_exp(0) == 1 && vx_exp_float(200) == INFINITY && vx_exp_float(-200) == 0);
  assert_true(vx_atan2(0, 0) == 0 && vx_atan2(0, -1) == VX_PI && vx_atan2(-1, 0) == -VX_HALF_PI);
  assert_true(vx_exp_float(1) == 2.71828175f && vx_sigmoid(0) == 0.5f);
}

static void ranks_rise_as_scores_fall(void **state) {
  (void)state;
  const float falling[] = {INFINITY, 3e38f, 1, 1e-40f, 0, -1e-40f, -1, -3e38f, -INFINITY};
  for (size_t i = 1; i < sizeof falling / sizeof *falling; i++)
    assert_true(vx_rank_key(falling[i - 1]) < vx_rank_key(falling[i]));
  assert_int_equal(vx_rank_key(-0.0f), vx_rank_key(0.0f));
}

static void only_sound_boxes_are_valid(void **state) {
  (void)state;
  const float sound[VX_BOX_VALUES] = {1, 2, 3, 0, 0, 0, -65536};
  assert_true(vx_is_valid_box(sound, -5));
  assert_false(vx_is_valid_box(sound, NAN));
  assert_false(vx_is_valid_box(sound, INFINITY));
  const struct {
    int value;
    float broken;
  } cases[] = {{0, NAN}, {2, INFINITY}, {3, -1e-30f}, {4, -1}, {5, -1}, {5, -INFINITY}, {6, 65537}, {6, NAN}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    float box[VX_BOX_VALUES];
    memcpy(box, sound, sizeof box);
    box[cases[i].value] = cases[i].broken;
    assert_false(vx_is_valid_box(box, 1));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_best_box_suppresses_others),
      cmocka_unit_test(classes_do_not_meet),
      cmocka_unit_test(clouds_do_not_meet),
      cmocka_unit_test(caps_are_counted),
      cmocka_unit_test(no_boxes_give_no_boxes),
      cmocka_unit_test(long_comparisons_can_be_stopped),
      cmocka_unit_test(many_comparisons_are_long),
      cmocka_unit_test(inputs_must_fit),
      cmocka_unit_test(overlaps_are_those_of_geometry),
      cmocka_unit_test(elementary_functions_are_close),
      cmocka_unit_test(ranks_rise_as_scores_fall),
      cmocka_unit_test(only_sound_boxes_are_valid),
  };
  return cmocka_run_group_tests(tests, open_backend, close_backend);
}
