// Transform as a job: moved points, boxes, batches, inputs that do not fit. tests/oracle checks every bit; here points
// are few and have simple coordinates.
#include "tests/unit/kernels/kernels_reference.h"

static const float shift[16] = {1, 0, 0, 10, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1};
static const float turn[16] = {0, -1, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1};  // x to y
static const float points[][4] = {{0, 0, 0, 1}, {1, 2, 3, 2}, {NAN, 0, 0, 3}, {5, 5, 5, 4}, {0, INFINITY, 0, 5}};
enum { COUNT = sizeof points / sizeof *points };

static struct vx_job transform_job(const float *matrices, int64_t count) {
  struct vx_job job = {
      .op = VX_TRANSFORM, .inputs = {vx_points_of(VX_FLOAT32, 0, 4, NULL)}, .tensors = VX_TRANSFORM_TENSORS};
  if (matrices) job.inputs[VX_MATRIX] = (struct vx_input){VX_FLOAT32, 3, {count, 4, 4}, matrices};
  return job;
}

// The run keeps these points, in this order.
static void assert_kept(const struct outcome *outcome, int32_t count, const int32_t *indices, const float *rows) {
  if (outcome->status != VX_OK) fail_msg("%s", outcome->error.text);
  const struct vx_counts *counts = &outcome->counts;
  assert_int_equal(counts->kept, count);
  assert_int_equal(counts->received, counts->kept + counts->not_finite + counts->out_of_crop + counts->cut_out);
  assert_int_equal(outcome->layout.shape[VX_MOVED_POINTS].dims[0], count);
  assert_memory_equal(tensor(outcome, VX_POINT_INDICES), indices, (size_t)count * sizeof *indices);
  assert_memory_equal(tensor(outcome, VX_MOVED_POINTS), rows, (size_t)count * 4 * sizeof *rows);
}

static void points_stay_without_a_matrix(void **state) {
  (void)state;
  const struct vx_job asked = transform_job(NULL, 0);
  struct outcome outcome = run_scan(&asked, points, COUNT);
  assert_kept(&outcome, 3, (int32_t[]){0, 1, 3}, (float[]){0, 0, 0, 1, 1, 2, 3, 2, 5, 5, 5, 4});
  assert_int_equal(outcome.counts.not_finite, 2);
  free(outcome.block);
}

static void each_point_has_its_first_fate(void **state) {
  (void)state;
  const struct vx_box cuts[2] = {{{14, 4, 4}, {16, 6, 6}}, {{10, 0, 0}, {10.5f, 1, 1}}};
  struct vx_job asked = transform_job(shift, 1);
  asked.params.transform = (struct vx_transform){true, {{10, 0, 0}, {15, 5, 5}}, 2, cuts};
  struct outcome outcome = run_scan(&asked, points, COUNT);
  assert_kept(&outcome, 1, (int32_t[]){1}, (float[]){11, 2, 3, 2});
  assert_int_equal(outcome.counts.not_finite, 2);
  assert_int_equal(outcome.counts.out_of_crop, 1);  // although it is in a box of `cuts` too
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
  const struct vx_job asked = transform_job(matrices[0], 3);
  const int32_t counts[3] = {1, 0, COUNT - 1};
  struct outcome outcome = run_on(lane, &asked, points, 3, counts);
  assert_kept(&outcome, 3, (int32_t[]){0, 1, 3}, (float[]){10, 0, 0, 1, -2, 1, 3, 2, -5, 5, 5, 4});
  assert_memory_equal(outcome.row_counts, ((int32_t[]){1, 0, 2}), 3 * sizeof(int32_t));
  free(outcome.block);
}

static void only_counts_are_taken_without_tensors(void **state) {
  (void)state;
  struct vx_job asked = transform_job(shift, 1);
  asked.tensors = 0;
  struct outcome outcome = run_scan(&asked, points, COUNT);
  assert_int_equal(outcome.status, VX_OK);
  assert_int_equal(outcome.outputs, 0);
  assert_int_equal(outcome.counts.kept, 3);
}

static void no_points_give_tensors_without_rows(void **state) {
  (void)state;
  const struct vx_job asked = transform_job(shift, 1);
  struct outcome outcome = run_scan(&asked, points, 0);
  assert_int_equal(outcome.status, VX_OK);
  assert_int_equal(outcome.outputs, 1);
  assert_int_equal(outcome.layout.bytes, 0);
  free(outcome.block);
}

static void inputs_of_another_shape_are_refused(void **state) {
  (void)state;
  struct vx_job asked[4];
  for (int i = 0; i < 4; i++) asked[i] = transform_job(shift, 1);
  asked[0].inputs[VX_MATRIX].dims[0] = 2;
  asked[1].inputs[VX_MATRIX].rank = 2;
  asked[2].inputs[VX_MATRIX].dtype = VX_FLOAT16;
  asked[3].inputs[VX_POINTS].dtype = VX_INT32;
  for (int i = 0; i < 4; i++) {
    struct outcome outcome = run_scan(&asked[i], points, COUNT);
    assert_int_equal(outcome.status, VX_REFUSED);
    assert_non_null(strstr(outcome.error.text, i < 3 ? "matrix" : "points"));
    assert_int_equal(outcome.outputs, 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(points_stay_without_a_matrix),        cmocka_unit_test(each_point_has_its_first_fate),
      cmocka_unit_test(each_cloud_has_its_matrix),           cmocka_unit_test(only_counts_are_taken_without_tensors),
      cmocka_unit_test(no_points_give_tensors_without_rows), cmocka_unit_test(inputs_of_another_shape_are_refused),
  };
  return cmocka_run_group_tests(tests, open_backend, close_backend);
}
