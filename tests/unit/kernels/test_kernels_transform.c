// Transform as a job, with few points. tests/oracle checks every bit of many.
#include "tests/unit/kernels/kernels_reference.h"

static const float shift[16] = {1, 0, 0, 10, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1};
static const float turn[16] = {0, -1, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1};  // turns the x axis to the y axis
static const float points[][4] = {{0, 0, 0, 1}, {1, 2, 3, 2}, {NAN, 0, 0, 3}, {5, 5, 5, 4}, {0, INFINITY, 0, 5}};
enum { COUNT = sizeof points / sizeof *points };

static struct vx_chain_report report;

static struct vx_chain transform_chain(const float *matrices, int32_t count) {
  return (struct vx_chain){1, {{VX_STEP_TRANSFORM, {.transform = {.num_matrices = count, .matrices = matrices}}}}};
}

static struct vx_job points_job(const struct vx_chain *chain) {
  return (struct vx_job){.op = VX_POINTS_OP,
                         .inputs = {vx_points_of(VX_FLOAT32, 0, 4, NULL)},
                         .tensors = VX_TENSOR_BIT(VX_LEFT_POINTS) | VX_TENSOR_BIT(VX_POINT_INDICES),
                         .chain = chain,
                         .report = &report};
}

static void assert_kept(const struct outcome *outcome, int32_t count, const int32_t *indices, const float *rows) {
  if (outcome->status != VX_OK) fail_msg("%s", outcome->error.text);
  const struct vx_counts *counts = &outcome->counts;
  assert_int_equal(counts->kept, count);
  assert_int_equal(counts->received,
                   counts->kept + counts->not_finite + counts->out_of_crop + counts->cut_out + counts->out_of_distance);
  assert_int_equal(outcome->layout.shape[VX_LEFT_POINTS].dims[0], count);
  assert_memory_equal(tensor(outcome, VX_POINT_INDICES), indices, (size_t)count * sizeof *indices);
  assert_memory_equal(tensor(outcome, VX_LEFT_POINTS), rows, (size_t)count * 4 * sizeof *rows);
}

static void points_stay_without_a_matrix(void **state) {
  (void)state;
  const struct vx_chain chain = transform_chain(NULL, 0);
  const struct vx_job asked = points_job(&chain);
  struct outcome outcome = run_scan(&asked, points, COUNT);
  assert_kept(&outcome, 3, (int32_t[]){0, 1, 3}, (float[]){0, 0, 0, 1, 1, 2, 3, 2, 5, 5, 5, 4});
  assert_int_equal(outcome.counts.not_finite, 2);
  free(outcome.block);
}

static void each_point_has_its_first_fate(void **state) {
  (void)state;
  const struct vx_box cuts[2] = {{{14, 4, 4}, {16, 6, 6}}, {{10, 0, 0}, {10.5f, 1, 1}}};
  struct vx_chain chain = transform_chain(shift, 1);
  struct vx_transform *params = &chain.steps[0].params.transform;
  params->cropped = true;
  params->crop = (struct vx_box){{10, 0, 0}, {15, 5, 5}};
  params->num_cuts = 2;
  params->cuts = cuts;
  struct vx_job asked = points_job(&chain);
  struct outcome outcome = run_scan(&asked, points, COUNT);
  assert_kept(&outcome, 1, (int32_t[]){1}, (float[]){11, 2, 3, 2});
  assert_int_equal(outcome.counts.not_finite, 2);
  assert_int_equal(outcome.counts.out_of_crop, 1);  // also in a box of `cuts`; the crop counts first
  assert_int_equal(outcome.counts.cut_out, 1);
  assert_int_equal(outcome.row_counts[0], 1);
  free(outcome.block);
}

static void each_cloud_has_its_matrix(void **state) {
  (void)state;
  float matrices[3][16];
  memcpy(matrices[0], shift, sizeof shift);
  memcpy(matrices[1], shift, sizeof shift);
  memcpy(matrices[2], turn, sizeof turn);
  const struct vx_chain chain = transform_chain(matrices[0], 3);
  const struct vx_job asked = points_job(&chain);
  const int32_t counts[3] = {1, 0, COUNT - 1};
  struct outcome outcome = run_on(lane, &asked, points, 3, counts);
  assert_kept(&outcome, 3, (int32_t[]){0, 1, 3}, (float[]){10, 0, 0, 1, -2, 1, 3, 2, -5, 5, 5, 4});
  assert_memory_equal(outcome.row_counts, ((int32_t[]){1, 0, 2}), 3 * sizeof(int32_t));
  free(outcome.block);
}

static void only_counts_are_taken_without_tensors(void **state) {
  (void)state;
  const struct vx_chain chain = transform_chain(shift, 1);
  struct vx_job asked = points_job(&chain);
  asked.tensors = 0;
  struct outcome outcome = run_scan(&asked, points, COUNT);
  assert_int_equal(outcome.status, VX_OK);
  assert_int_equal(outcome.outputs, 0);
  assert_int_equal(outcome.counts.kept, 3);
}

static void no_points_give_tensors_without_rows(void **state) {
  (void)state;
  const struct vx_chain chain = transform_chain(shift, 1);
  const struct vx_job asked = points_job(&chain);
  struct outcome outcome = run_scan(&asked, points, 0);
  assert_int_equal(outcome.status, VX_OK);
  assert_int_equal(outcome.outputs, 1);
  assert_int_equal(outcome.layout.bytes, 0);
  free(outcome.block);
}

static void matrices_that_do_not_fit_the_clouds_are_refused(void **state) {
  (void)state;
  const struct vx_chain chain = transform_chain(shift, 2);
  const struct vx_job asked = points_job(&chain);
  struct outcome outcome = run_scan(&asked, points, COUNT);
  assert_int_equal(outcome.status, VX_REFUSED);
  assert_non_null(strstr(outcome.error.text, "2 matrices do not fit 1 clouds"));
  assert_int_equal(outcome.outputs, 0);
}

static void points_of_another_type_are_refused(void **state) {
  (void)state;
  const struct vx_chain chain = transform_chain(NULL, 0);
  struct vx_job asked = points_job(&chain);
  asked.inputs[VX_POINTS].dtype = VX_INT32;
  struct outcome outcome = run_scan(&asked, points, COUNT);
  assert_int_equal(outcome.status, VX_REFUSED);
  assert_non_null(strstr(outcome.error.text, "points"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(points_stay_without_a_matrix),
      cmocka_unit_test(each_point_has_its_first_fate),
      cmocka_unit_test(each_cloud_has_its_matrix),
      cmocka_unit_test(only_counts_are_taken_without_tensors),
      cmocka_unit_test(no_points_give_tensors_without_rows),
      cmocka_unit_test(matrices_that_do_not_fit_the_clouds_are_refused),
      cmocka_unit_test(points_of_another_type_are_refused),
  };
  return cmocka_run_group_tests(tests, open_backend, close_backend);
}
