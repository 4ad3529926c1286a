// Sections of a cloud: their counts equal a naive model's.
#include "tests/unit/kernels/kernels_reference.h"

enum { POINTS = 3000, COLUMNS = 4 };

static float points[POINTS][COLUMNS];

static void make_points(void) {
  struct random random = {17};
  for (int i = 0; i < POINTS; i++)
    for (int c = 0; c < COLUMNS; c++) points[i][c] = i % 97 == 96 && c == i % 3 ? NAN : random_in(&random, -0.5f, 8);
}

// Runs the job with these sections. The counts of the sections add up to the outcome's.
static struct outcome run_cut(const struct vx_job *asked, int32_t count, const int32_t *section_points,
                              struct vx_counts *counts) {
  struct vx_job sectioned = *asked;
  struct vx_counts sum = {0};
  sectioned.sections = (struct vx_sections){count, section_points, counts};
  memset(counts, 0x5A, (size_t)count * sizeof *counts);
  struct outcome outcome = run_scan(&sectioned, points, POINTS);
  if (outcome.status != VX_OK) fail_msg("%s", outcome.error.text);
  for (int32_t i = 0; i < count; i++) {
    int64_t fates = 0;
    assert_int_equal(counts[i].received, section_points[i]);
    sum.received += counts[i].received;
    for (enum vx_fate fate = 0; fate < VX_FATE_COUNT; fate++) {
      fates += counts[i].fates[fate];
      sum.fates[fate] += counts[i].fates[fate];
    }
    assert_int_equal(fates, section_points[i]);
  }
  assert_int_equal(sum.received, outcome.counts.received);
  for (enum vx_fate fate = 0; fate < VX_FATE_COUNT; fate++)
    assert_int_equal(sum.fates[fate], outcome.counts.fates[fate]);
  return outcome;
}

static enum vx_fate model_fate(const struct model *model, int32_t point) {
  int32_t number = model->voxel_of[point];
  const float *at = model->points + (size_t)point * COLUMNS;
  if (number < 0)
    return isfinite(at[0]) && isfinite(at[1]) && isfinite(at[2]) ? VX_FATE_OUT_OF_RANGE : VX_FATE_NOT_FINITE;
  const struct model_voxel *voxel = &model->voxels[number];
  if (voxel->better >= model->asked->params.voxelize.max_voxels) return VX_FATE_OVER_MAX_VOXELS;
  if (voxel->row < 0) return VX_FATE_BLOCK_FILTERED;
  for (int32_t k = 0; k < voxel->kept; k++)
    if (voxel->points[k] == point) return VX_FATE_KEPT;
  return VX_FATE_OVER_VOXEL_CAP;
}

static void check_sections(const struct vx_job *asked, int32_t count, const int32_t *section_points) {
  struct vx_counts counts[VX_MAX_SECTIONS];
  int32_t all = POINTS, point = 0;
  struct outcome outcome = run_cut(asked, count, section_points, counts);
  struct model model = model_of(asked, points, 1, &all);
  for (int32_t i = 0; i < count; i++) {
    struct vx_counts expected = {.received = section_points[i]};
    for (int32_t end = point + section_points[i]; point < end; point++) {
      enum vx_fate fate = model_fate(&model, point);
      expected.fates[fate]++;
    }
    assert_memory_equal(&counts[i], &expected, sizeof expected);
  }
  model_free(&model);
  free(outcome.block);
}

static void each_section_has_its_fates(void **state) {
  (void)state;
  static const int32_t cuts[][6] = {{POINTS}, {0, 1000, 0, 1, 1999, 0}, {500, 500, 500, 500, 500, 500}};
  static const int32_t lengths[] = {1, 6, 6};
  static const int32_t caps[] = {0, 1, 5, 40}, voxels[] = {1, 100, 1000};
  static const vx_tensor_set tensors[] = {0, VX_TENSOR_BIT(VX_VOXEL_COORDS), UNCAPPED_TENSORS};
  make_points();
  for (int i = 0; i < 3 * 4 * 3 * 3 * 2 * 2 * 4; i += PART) {
    struct vx_job asked = plain_params(7);
    struct vx_voxelize *params = &asked.params.voxelize;
    params->max_points_per_voxel = caps[i / 3 % 4];
    params->max_voxels = voxels[i / 12 % 3];
    asked.tensors = tensors[i / 36 % 3];
    params->order = i / 108 % 2 ? VX_ORDER_KEY : VX_ORDER_FIRST;
    if (i / 432 % 2) params->choice = (struct vx_choice){(enum vx_voxels_by)(1 + i % 2), VX_POINTS_FIRST, 0};
    if (i / 864 % 2) params->choice.points_by = VX_POINTS_RANDOM;
    if (i / 216 % 2) params->block_filter = (struct vx_block_filter){true, 2, 2, 3, 6.95f};
    check_sections(&asked, lengths[i % 3], cuts[i % 3]);
  }
}

static void there_are_up_to_64_sections(void **state) {
  (void)state;
  const struct vx_job asked = plain_params(7);
  int32_t section_points[VX_MAX_SECTIONS + 1] = {0}, left = POINTS;
  make_points();
  for (int i = 0; i < VX_MAX_SECTIONS; i++) {
    section_points[i] = i == VX_MAX_SECTIONS - 1 ? left : i;
    left -= section_points[i];
  }
  check_sections(&asked, VX_MAX_SECTIONS, section_points);
}

static void moved_points_have_their_fates_too(void **state) {
  (void)state;
  const struct vx_box cut = {{1, 1, 1}, {6, 6, 6}};
  const int32_t section_points[] = {1000, 0, 2000};
  const struct vx_transform transform = {.cropped = true, .crop = {{0, 0, 0}, {7, 7, 7}}, .num_cuts = 1, .cuts = &cut};
  const struct vx_chain chain = {1, {{VX_STEP_TRANSFORM, {transform}}}};
  struct vx_chain_report report;
  struct vx_job asked = {
      .op = VX_POINTS_OP, .inputs = {vx_points_of(VX_FLOAT32, 0, COLUMNS, NULL)}, .chain = &chain, .report = &report};
  struct vx_counts counts[3];
  make_points();
  (void)run_cut(&asked, 3, section_points, counts);
  struct outcome first = run_scan(&asked, points, 1000);
  assert_memory_equal(&counts[0], &first.counts, sizeof first.counts);
  assert_true(first.counts.kept > 0 && first.counts.not_finite > 0 && first.counts.out_of_crop > 0);
  assert_true(first.counts.cut_out > 0);
}

static void points_on_curves_have_their_fates_too(void **state) {
  (void)state;
  static const struct vx_chain no_steps;
  const int32_t section_points[] = {1000, 0, 2000};
  struct vx_chain_report report;
  struct vx_job asked = {.op = VX_SERIALIZE,
                         .params.serialize = {.size = {1, 1, 1}, .fixed = true, .num_orders = 1},
                         .inputs = {vx_points_of(VX_FLOAT32, 0, COLUMNS, NULL)},
                         .chain = &no_steps,
                         .report = &report};
  struct vx_counts counts[3];
  make_points();
  for (int i = 0; i < 2; i++) {
    asked.tensors = i ? VX_SERIAL_TENSORS : 0;
    struct outcome cut = run_cut(&asked, 3, section_points, counts), first = run_scan(&asked, points, 1000);
    assert_memory_equal(&counts[0], &first.counts, offsetof(struct vx_counts, depth));
    assert_true(first.counts.kept > 0 && first.counts.not_finite > 0 && first.counts.out_of_lattice > 0);
    free(cut.block);
    free(first.block);
  }
}

static void sections_of_something_else_are_refused(void **state) {
  (void)state;
  static const int32_t good[] = {1000, 2000}, negative[] = {-1, 3001}, more[] = {1000, 2001};
  static const int32_t halves[] = {1500, 1500};
  static const int32_t many[VX_MAX_SECTIONS + 1] = {POINTS};
  struct vx_counts counts[VX_MAX_SECTIONS + 1];
  struct vx_job asked[6];
  make_points();
  for (int i = 0; i < 6; i++) {
    asked[i] = plain_params(7);
    asked[i].sections = (struct vx_sections){2, good, counts};
  }
  asked[0].sections.points = negative;
  asked[1].sections.points = more;
  asked[2].sections = (struct vx_sections){VX_MAX_SECTIONS + 1, many, counts};
  asked[3].sections.count = -1;
  asked[4].op = VX_FPS;
  asked[4].tensors = 0;
  for (int i = 0; i < 6; i++) {
    struct outcome outcome = run_on(lane, &asked[i], points, i == 5 ? 2 : 1, i == 5 ? halves : (int32_t[]){POINTS});
    assert_int_equal(outcome.status, VX_REFUSED);
    assert_string_equal(outcome.error.text, "the sections do not add up to the points of a single cloud");
    assert_int_equal(outcome.outputs, 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_section_has_its_fates),
      cmocka_unit_test(there_are_up_to_64_sections),
      cmocka_unit_test(moved_points_have_their_fates_too),
      cmocka_unit_test(points_on_curves_have_their_fates_too),
      cmocka_unit_test(sections_of_something_else_are_refused),
  };
  return cmocka_run_group_tests(tests, open_backend, close_backend);
}
