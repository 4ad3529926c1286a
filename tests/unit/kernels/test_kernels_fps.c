// Farthest point sampling as a job. test_kernels_sample.c tests the sampling of one cloud.
#include "tests/unit/kernels/kernels_reference.h"

enum { MOST = 3000, COLUMNS = 5 };
static float points[MOST * COLUMNS];

static struct vx_job fps_params(void) {
  return (struct vx_job){
      .op = VX_FPS,
      .params.fps.sampling = {.enabled = true, .max_work = INT64_MAX},
      .inputs = {vx_points_of(VX_FLOAT32, 0, COLUMNS, NULL)},
      .tensors = VX_SAMPLED_TENSORS,
  };
}

static struct vx_job voxel_params(void) {
  struct vx_job asked = plain_params(10);
  asked.inputs[VX_POINTS].dims[1] = COLUMNS;
  asked.params.voxelize.sampling = (struct vx_sampling){.enabled = true, .max_work = INT64_MAX};
  asked.tensors |= VX_SAMPLED_TENSORS;
  return asked;
}

static void scatter(uint64_t seed, float low, float high) {
  struct random random = {seed};
  for (int i = 0; i < MOST * COLUMNS; i++) points[i] = random_in(&random, low, high);
}

struct stop {
  int after, asked;
};

static bool stop_after(void *ctx) {
  struct stop *stop = ctx;
  return ++stop->asked > stop->after;
}

struct clouds {
  int32_t count;
  const int32_t *points, *samples;
};

// `outcome` is for give_output, `stop` for stop_after.
struct asking {
  struct outcome outcome;
  struct stop *stop;
};

static enum vx_status give_asking(void *ctx, const struct vx_layout *layout, void **block, struct error *error) {
  return give_output(&((struct asking *)ctx)->outcome, layout, block, error);
}

static bool stop_asking(void *ctx) {
  const struct asking *asking = ctx;
  return stop_after(asking->stop);
}

static struct outcome run_stopping(const struct vx_job *asked, const void *rows, struct clouds clouds,
                                   struct stop *stop) {
  struct asking asking = {.stop = stop};
  struct vx_job job = job_over(asked, rows, clouds.count, clouds.points);
  job.sample_counts = clouds.samples;
  job.caller = &(const struct vx_caller){.output = give_asking, .stopped = stop ? stop_asking : NULL};
  job.ctx = &asking;
  job.row_counts = asking.outcome.row_counts;
  asking.outcome.status = backend->run(lane, &job, &asking.outcome.error);
  asking.outcome.counts = job.counts;
  return asking.outcome;
}

static struct outcome run_clouds(const struct vx_job *asked, const void *rows, struct clouds clouds) {
  return run_stopping(asked, rows, clouds, NULL);
}

// ---- the model ------------------------------------------------------------------------------------------------------

static bool is_candidate(const float *row) { return isfinite(row[0]) && isfinite(row[1]) && isfinite(row[2]); }

static float squared(const float *a, const float *b) {
  float dx = a[0] - b[0], dy = a[1] - b[1], dz = a[2] - b[2];
  float xx = dx * dx, yy = dy * dy, zz = dz * dz;
  float sum = xx + yy;
  return sum + zz;
}

static int32_t first_of(const float *rows, int32_t count, int32_t start) {
  for (int32_t i = start; i < count; i++)
    if (is_candidate(rows + (ptrdiff_t)i * COLUMNS)) return i;
  return start > 0 ? first_of(rows, start, 0) : -1;
}

// The next sample after `number` chosen ones: compares each row with each of them.
static int32_t next_of(const float *rows, int32_t count, const int32_t *chosen, int32_t number, float *distance) {
  int32_t next = -1;
  *distance = 0;
  for (int32_t i = 0; i < count; i++) {
    const float *row = rows + (ptrdiff_t)i * COLUMNS;
    float nearest = INFINITY;
    for (int32_t k = 0; k < number; k++) nearest = fminf(nearest, squared(row, rows + (ptrdiff_t)chosen[k] * COLUMNS));
    if (is_candidate(row) && (next < 0 || nearest > *distance)) {
      next = i;
      *distance = nearest;
    }
  }
  return next;
}

// Compares the samples of each cloud with the model's. `rows`: the points that were sampled.
static void check_samples(const struct outcome *outcome, const float *rows, int32_t start, struct clouds clouds) {
  const int32_t *indices = tensor(outcome, VX_SAMPLED_INDICES);
  const float *sampled = tensor(outcome, VX_SAMPLED_POINTS), *distances = tensor(outcome, VX_SAMPLED_DISTANCES);
  for (int32_t cloud = 0; cloud < clouds.count; cloud++) {
    for (int32_t k = 0; k < clouds.samples[cloud]; k++) {
      float distance = INFINITY;
      int32_t expected = k == 0 ? first_of(rows, clouds.points[cloud], start)
                                : next_of(rows, clouds.points[cloud], indices, k, &distance);
      assert_int_equal(indices[k], expected);
      assert_memory_equal(sampled + (ptrdiff_t)k * COLUMNS, rows + (ptrdiff_t)expected * COLUMNS,
                          COLUMNS * sizeof(float));
      assert_int_equal(bits_of(distances[k]), bits_of(sqrtf(distance)));
    }
    rows += (ptrdiff_t)clouds.points[cloud] * COLUMNS;
    indices += clouds.samples[cloud];
    sampled += (ptrdiff_t)clouds.samples[cloud] * COLUMNS;
    distances += clouds.samples[cloud];
  }
}

// ---- points ---------------------------------------------------------------------------------------------------------

static void one_cloud(void **state) {
  (void)state;
  scatter(1, -50, 50);
  for (int32_t start = 0; start < 500; start += 499) {
    struct vx_job asked = fps_params();
    job_sampling(&asked)->start = start;
    struct clouds clouds = {1, (int32_t[]){500}, (int32_t[]){60}};
    struct outcome outcome = run_clouds(&asked, points, clouds);
    assert_int_equal(outcome.status, VX_OK);
    assert_int_equal(outcome.outputs, 1);
    assert_int_equal(outcome.counts.received, 500);
    assert_int_equal(outcome.counts.kept, 500);
    assert_int_equal(outcome.counts.sampled, 60);
    check_samples(&outcome, points, start, clouds);
    free(outcome.block);
  }
}

static void batch_of_equal_numbers(void **state) {
  (void)state;
  scatter(2, -1, 1);
  struct vx_job asked = fps_params();
  struct clouds clouds = {3, (int32_t[]){200, 31, 400}, (int32_t[]){31, 31, 31}};
  struct outcome outcome = run_clouds(&asked, points, clouds);
  assert_int_equal(outcome.status, VX_OK);
  assert_int_equal(outcome.layout.shape[VX_SAMPLED_INDICES].rank, 2);
  assert_int_equal(outcome.layout.shape[VX_SAMPLED_INDICES].dims[0], 3);
  assert_int_equal(outcome.layout.shape[VX_SAMPLED_INDICES].dims[1], 31);
  check_samples(&outcome, points, 0, clouds);
  free(outcome.block);
}

static void stacked_batch_with_empty_clouds(void **state) {
  (void)state;
  scatter(3, -1, 1);
  struct vx_job asked = fps_params();
  job_sampling(&asked)->stacked = true;
  job_sampling(&asked)->start = 2;
  struct clouds clouds = {5, (int32_t[]){0, 300, 1, 3, 250}, (int32_t[]){0, 40, 0, 3, 1}};
  struct outcome outcome = run_clouds(&asked, points, clouds);
  assert_int_equal(outcome.status, VX_OK);
  assert_int_equal(outcome.layout.shape[VX_SAMPLED_POINTS].rank, 2);
  assert_int_equal(outcome.layout.shape[VX_SAMPLED_POINTS].dims[0], 44);
  check_samples(&outcome, points, 2, clouds);
  free(outcome.block);
}

static void no_samples(void **state) {
  (void)state;
  struct vx_job asked = fps_params();
  job_sampling(&asked)->start = 99;  // allowed, since nothing is sampled
  struct clouds clouds = {2, (int32_t[]){0, 5}, (int32_t[]){0, 0}};
  struct outcome outcome = run_clouds(&asked, points, clouds);
  assert_int_equal(outcome.status, VX_OK);
  assert_int_equal(outcome.layout.bytes, 0);
  assert_int_equal(outcome.layout.shape[VX_SAMPLED_INDICES].dims[0], 2);
  assert_int_equal(outcome.layout.shape[VX_SAMPLED_INDICES].dims[1], 0);
  free(outcome.block);
}

static void nan_points(void **state) {
  (void)state;
  scatter(4, -1, 1);
  for (int i = 0; i < 400; i += 2) {
    points[i * COLUMNS + i % 3] = (float[]){NAN, INFINITY, -INFINITY}[i / 2 % 3];
    points[(i + 1) * COLUMNS + 3] = NAN;  // not a coordinate
  }
  struct vx_job asked = fps_params();
  job_sampling(&asked)->start = 390;
  struct clouds clouds = {2, (int32_t[]){398, 2}, (int32_t[]){50, 0}};
  job_sampling(&asked)->stacked = true;
  struct outcome outcome = run_clouds(&asked, points, clouds);
  assert_int_equal(outcome.status, VX_OK);
  assert_int_equal(outcome.counts.kept, 200);
  assert_int_equal(outcome.counts.not_finite, 200);
  assert_counts_add_up(&outcome.counts);
  check_samples(&outcome, points, 390, clouds);
  free(outcome.block);
}

static void half_precision(void **state) {
  (void)state;
  static uint16_t halves[400 * COLUMNS];
  struct random random = {5};
  for (int i = 0; i < 400 * COLUMNS; i++) {
    halves[i] = (uint16_t)next_random(&random);
    points[i] = model_widen(halves[i]);
  }
  struct vx_job asked = fps_params();
  asked.inputs[VX_POINTS].dtype = VX_FLOAT16;
  struct clouds clouds = {1, (int32_t[]){400}, (int32_t[]){100}};
  struct outcome outcome = run_clouds(&asked, halves, clouds);
  assert_int_equal(outcome.status, VX_OK);
  check_samples(&outcome, points, 0, clouds);
  free(outcome.block);
}

static void each_tensor_alone(void **state) {
  (void)state;
  scatter(6, -1, 1);
  struct clouds clouds = {1, (int32_t[]){300}, (int32_t[]){40}};
  struct vx_job asked = fps_params();
  struct outcome all = run_clouds(&asked, points, clouds);
  for (enum vx_tensor which = VX_SAMPLED_INDICES; which <= VX_SAMPLED_DISTANCES; which++) {
    asked.tensors = VX_TENSOR_BIT(which);
    struct outcome alone = run_clouds(&asked, points, clouds);
    assert_int_equal(alone.status, VX_OK);
    assert_int_equal(alone.layout.bytes, all.layout.shape[which].bytes);
    assert_memory_equal(alone.block, tensor(&all, which), alone.layout.bytes);
    free(alone.block);
  }
  free(all.block);
}

// ---- voxels ---------------------------------------------------------------------------------------------------------

// Compares the samples with a sampling of float32 voxel_features, and the other tensors with a job without sampling.
static void check_voxels(struct vx_job asked, struct clouds clouds) {
  struct outcome outcome = run_clouds(&asked, points, clouds);
  if (outcome.status != VX_OK) fail_msg("%s", outcome.error.text);
  asked.tensors &= ~VX_SAMPLED_TENSORS;
  asked.params.voxelize.sampling.enabled = false;
  struct outcome plain = check_batch_on(lane, &asked, points, clouds.count, clouds.points);
  struct vx_counts expected = plain.counts;
  for (int32_t cloud = 0; cloud < clouds.count; cloud++) expected.sampled += clouds.samples[cloud];
  assert_memory_equal(&outcome.counts, &expected, sizeof expected);
  assert_memory_equal(outcome.row_counts, plain.row_counts, sizeof plain.row_counts);
  for (int which = 0; which < VX_TENSOR_COUNT; which++)
    if (asked.tensors & VX_TENSOR_BIT(which))
      assert_memory_equal(tensor(&outcome, which), tensor(&plain, which), plain.layout.shape[which].bytes);
  asked.tensors = VX_TENSOR_BIT(VX_VOXEL_FEATURES);
  asked.params.voxelize.feature_dtype = VX_FLOAT32;
  struct outcome means = run_on(lane, &asked, points, clouds.count, clouds.points);
  clouds.points = outcome.row_counts;
  check_samples(&outcome, tensor(&means, VX_VOXEL_FEATURES), job_sampling(&asked)->start, clouds);
  free(means.block);
  free(plain.block);
  free(outcome.block);
}

static void voxel_means(void **state) {
  (void)state;
  scatter(7, -1, 11);
  struct clouds clouds = {3, (int32_t[]){900, 0, 1200}, (int32_t[]){50, 0, 70}};
  struct vx_job asked = voxel_params();
  job_sampling(&asked)->stacked = true;
  check_voxels(asked, clouds);
  asked.params.voxelize.order = VX_ORDER_KEY;
  job_sampling(&asked)->start = 33;
  asked.params.voxelize.feature_dtype = VX_FLOAT16;
  check_voxels(asked, clouds);
  asked.params.voxelize.block_filter = (struct vx_block_filter){true, 1, 1, 0.5f, 8};
  asked.params.voxelize.max_voxels = 350;
  check_voxels(asked, clouds);
}

static void voxel_means_without_a_cap(void **state) {
  (void)state;
  scatter(8, 0, 3);
  struct vx_job asked = voxel_params();
  asked.params.voxelize.max_points_per_voxel = 0;
  asked.tensors = UNCAPPED_TENSORS | VX_SAMPLED_TENSORS;
  check_voxels(asked, (struct clouds){1, (int32_t[]){MOST}, (int32_t[]){27}});
}

static void voxel_means_that_are_not_returned(void **state) {
  (void)state;
  scatter(9, 0, 10);
  struct vx_job asked = voxel_params();
  struct clouds clouds = {1, (int32_t[]){1000}, (int32_t[]){80}};
  struct outcome all = run_clouds(&asked, points, clouds);
  asked.tensors = VX_TENSOR_BIT(VX_SAMPLED_POINTS);
  struct outcome alone = run_clouds(&asked, points, clouds);
  assert_int_equal(alone.status, VX_OK);
  assert_memory_equal(alone.block, tensor(&all, VX_SAMPLED_POINTS), alone.layout.bytes);
  free(all.block);
  free(alone.block);
}

// The sum of two points overflows: their voxel has no finite mean and is no candidate.
static void voxel_means_that_overflow(void **state) {
  (void)state;
  memset(points, 0, sizeof points);
  points[0] = points[COLUMNS] = 3e38f;
  points[2 * COLUMNS] = 1e38f;
  struct vx_job asked = voxel_params();
  asked.params.voxelize.range_max[0] = 3.4e38f;
  asked.params.voxelize.voxel_size[0] = 1.7e38f;
  struct clouds clouds = {1, (int32_t[]){3}, (int32_t[]){1}};
  struct outcome outcome = run_clouds(&asked, points, clouds);
  assert_int_equal(outcome.status, VX_OK);
  assert_int_equal(*(const int32_t *)tensor(&outcome, VX_SAMPLED_INDICES), 1);
  free(outcome.block);
  clouds.samples = (int32_t[]){2};
  outcome = run_clouds(&asked, points, clouds);
  assert_int_equal(outcome.status, VX_REFUSED);
  assert_non_null(strstr(outcome.error.text, "1 voxels whose x, y and z are finite"));
  free(outcome.block);
}

// ---- refusals, counts only, and early stops -------------------------------------------------------------------------

static void refusals(void **state) {
  (void)state;
  static const struct {
    bool voxels;
    int32_t start, samples[2];
    int64_t max_work;
    const char *reason;
  } cases[] = {{false, 0, {1, 11}, INT64_MAX, "cloud 1 has 10 points, fewer than the 11 samples"},
               {false, 10, {0, 1}, INT64_MAX, "cannot start from number 10"},
               {false, 0, {10, 10}, 999, "too much work"},
               {true, 0, {1, 11}, INT64_MAX, "cloud 1 has 10 voxels, fewer than the 11 samples"},
               {true, 10, {0, 1}, INT64_MAX, "cannot start from number 10"},
               {true, 0, {10, 10}, 999, "too much work"}};
  memset(points, 0, sizeof points);
  for (int i = 0; i < 100; i++) {
    points[i * COLUMNS] = (float)(i % 10) + 0.5f;
    points[i * COLUMNS + 1] = (float)(i / 10) + 0.5f;
  }
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    for (int only_counts = 0; only_counts < 2; only_counts++) {
      struct vx_job asked = cases[i].voxels ? voxel_params() : fps_params();
      job_sampling(&asked)->start = cases[i].start;
      job_sampling(&asked)->max_work = cases[i].max_work;
      job_sampling(&asked)->stacked = true;
      if (only_counts) asked.tensors = 0;
      struct clouds clouds = {2, (int32_t[]){90, 10}, cases[i].samples};
      struct outcome outcome = run_clouds(&asked, points, clouds);
      assert_int_equal(outcome.status, VX_REFUSED);
      assert_int_equal(outcome.outputs, 0);
      if (!strstr(outcome.error.text, cases[i].reason)) fail_msg("%s: %s", cases[i].reason, outcome.error.text);
      // The lane still works.
      *job_sampling(&asked) = (struct vx_sampling){.enabled = true, .stacked = true, .max_work = 1000};
      clouds.samples = (int32_t[]){10, 10};
      outcome = run_clouds(&asked, points, clouds);
      assert_int_equal(outcome.status, VX_OK);
      assert_int_equal(outcome.counts.sampled, 20);
      free(outcome.block);
    }
  }
}

static void counts_without_tensors(void **state) {
  (void)state;
  scatter(10, 0, 10);
  points[0] = NAN;
  struct clouds clouds = {1, (int32_t[]){1000}, (int32_t[]){70}};
  struct stop stop = {0, 0};
  struct vx_job asked = fps_params(), voxels = voxel_params();
  asked.tensors = voxels.tensors = 0;
  struct outcome outcome = run_stopping(&asked, points, clouds, &stop);
  assert_int_equal(outcome.status, VX_OK);
  assert_int_equal(outcome.counts.not_finite, 1);
  assert_int_equal(outcome.counts.sampled, 70);
  outcome = run_stopping(&voxels, points, clouds, &stop);
  assert_int_equal(outcome.status, VX_OK);
  assert_int_equal(outcome.counts.sampled, 70);
  assert_int_equal(outcome.outputs, 0);
  assert_true(stop.asked == 0 || backend != &vx_cpu_backend);  // a GPU calls `stopped` at intervals of time
}

// The job is stopped at call number `n` of `stopped`. On a GPU, which calls `stopped` at intervals of time, the job may
// finish before.
static void check_stopped(const struct vx_job *asked, struct clouds clouds, int n, const struct outcome *whole) {
  struct stop stop = {n - 1, 0};
  struct outcome outcome = run_stopping(asked, points, clouds, &stop);
  if (backend == &vx_cpu_backend || stop.asked >= n) {
    assert_int_equal(outcome.status, VX_STOPPED);
    assert_int_equal(stop.asked, n);  // not called again
    assert_true(strlen(outcome.error.text) > 0);
  }
  free(outcome.block);
  outcome = run_clouds(asked, points, clouds);
  assert_memory_equal(outcome.block, whole->block, whole->layout.bytes);
  free(outcome.block);
}

static void stopped(void **state) {
  (void)state;
  scatter(11, 0, 30);
  struct clouds clouds = {2, (int32_t[]){MOST / 2, MOST / 2}, (int32_t[]){1400, 1400}};
  for (int voxels = 0; voxels < 2; voxels++) {
    struct vx_job asked = voxels ? voxel_params() : fps_params();
    for (int a = 0; voxels && a < 3; a++) asked.params.voxelize.range_max[a] = 30;
    if (voxels) asked.params.voxelize.max_voxels = MOST;
    struct stop never = {INT32_MAX, 0};
    struct outcome whole = run_stopping(&asked, points, clouds, &never);
    assert_int_equal(whole.status, VX_OK);
    if (backend == &vx_cpu_backend) assert_true(never.asked > 0);
    const int times[] = {1, 2, never.asked / 2, never.asked};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
      if (times[i] > 0 && times[i] <= never.asked) check_stopped(&asked, clouds, times[i], &whole);
    free(whole.block);
  }
}

static enum vx_status give_nothing(void *ctx, const struct vx_layout *layout, void **block, struct error *error) {
  (void)layout, (void)block;
  strcpy(error->text, "nothing");
  ++*(int *)ctx;
  return VX_OUT_OF_MEMORY;
}

static void output_that_is_refused(void **state) {
  (void)state;
  scatter(12, 0, 10);
  for (int voxels = 0; voxels < 2; voxels++) {
    int times = 0;
    int32_t rows[1], count = 100, samples = 5;
    struct error error;
    const struct vx_job asked = voxels ? voxel_params() : fps_params();
    struct vx_job job = job_over(&asked, points, 1, &count);
    job.sample_counts = &samples;
    job.caller = &(const struct vx_caller){.output = give_nothing};
    job.ctx = &times;
    job.row_counts = rows;
    assert_int_equal(backend->run(lane, &job, &error), VX_OUT_OF_MEMORY);
    assert_int_equal(times, 1);
    assert_string_equal(error.text, "nothing");
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_cloud),
      cmocka_unit_test(batch_of_equal_numbers),
      cmocka_unit_test(stacked_batch_with_empty_clouds),
      cmocka_unit_test(no_samples),
      cmocka_unit_test(nan_points),
      cmocka_unit_test(half_precision),
      cmocka_unit_test(each_tensor_alone),
      cmocka_unit_test(voxel_means),
      cmocka_unit_test(voxel_means_without_a_cap),
      cmocka_unit_test(voxel_means_that_are_not_returned),
      cmocka_unit_test(voxel_means_that_overflow),
      cmocka_unit_test(refusals),
      cmocka_unit_test(counts_without_tensors),
      cmocka_unit_test(stopped),
      cmocka_unit_test(output_that_is_refused),
  };
  return cmocka_run_group_tests(tests, open_backend, close_backend);
}
