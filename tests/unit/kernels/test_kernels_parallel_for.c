// Several workers do the tasks of a job in random orders. Bytes and counts equal those of one worker. Each worker has
// its own lane, but all run on this thread, so that a test can repeat an order.
#include <stdlib.h>

#include "tests/unit/kernels/kernels_reference.h"

enum { CLOUDS = 9, COLUMNS = 4, MOST_HELPERS = 17, MOST_TASKS = 4096, SECTIONS = 7 };

static const int32_t sizes[CLOUDS] = {900, 0, 4000, 37, 2500, 1, 3000, 70000, 700};
static const int32_t samples[CLOUDS] = {100, 0, 700, 17, 1, 0, 300, 50, 200};
enum { POINTS = 900 + 4000 + 37 + 2500 + 1 + 3000 + 70000 + 700 };

static float points[POINTS][COLUMNS];
static uint16_t halves[POINTS][COLUMNS];
static float weights[2 * COLUMNS + 12][8], biases[8];

static void make_points(void) {
  struct random random = {31};
  for (int i = 0; i < POINTS; i++) {
    for (int c = 0; c < COLUMNS; c++) {
      points[i][c] = i % 97 == 96 ? NAN : random_in(&random, -1, 101);
      halves[i][c] = (uint16_t)(next_random(&random) % 0x5800);  // below 128
    }
  }
  for (size_t i = 0; i < sizeof weights / sizeof(float); i++) ((float *)weights)[i] = random_in(&random, -1, 1);
}

// ---- the workers ----------------------------------------------------------------------------------------------------

struct crew {
  struct outcome outcome;
  struct random random;
  int helpers;
  struct vx_lane *lanes[MOST_HELPERS];
  bool unwilling;  // helpers sometimes give up
  int patience;    // calls of has_other_work until the current helper gives up
  int loops, helped, given_up;
  int64_t stop_after;  // tasks of its own worker after which the job stops; -1: never
  int32_t section_points[SECTIONS];
  struct vx_counts section_counts[SECTIONS];
};

static bool has_other_work(void *ctx) {
  struct crew *crew = ctx;
  return crew->unwilling && crew->patience-- <= 0;
}

static enum vx_status give(void *ctx, const struct vx_layout *layout, void **block, struct error *error) {
  return give_output(&((struct crew *)ctx)->outcome, layout, block, error);
}

static bool is_stopped(void *ctx) {
  const struct crew *crew = ctx;
  return crew->stop_after == 0;
}

static enum vx_status do_own(struct crew *crew, const struct vx_worker *own, const struct vx_tasks *tasks, int32_t task,
                             struct error *error) {
  enum vx_status status = tasks->run(tasks->ctx, own, task, error);
  crew->stop_after -= crew->stop_after > 0;
  return status;
}

// Does the tasks in a random order, each by a random worker. Then the job's own worker does the tasks that helpers gave
// up.
static enum vx_status parallel_for(void *ctx, const struct vx_worker *own, const struct vx_tasks *tasks,
                                   struct error *error) {
  struct crew *crew = ctx;
  struct error unheard;
  int32_t order[MOST_TASKS], again[MOST_TASKS], left = 0;
  enum vx_status status = VX_OK;
  assert_in_range(tasks->count, 2, MOST_TASKS);
  crew->loops++;
  for (int32_t i = 0; i < tasks->count; i++) {
    int32_t j = (int32_t)(next_random(&crew->random) % (uint32_t)(i + 1));
    order[i] = order[j];
    order[j] = i;
  }
  for (int32_t i = 0; i < tasks->count && status == VX_OK; i++) {
    uint32_t who = next_random(&crew->random) % (uint32_t)(crew->helpers + 1);
    if (who == 0) {
      status = do_own(crew, own, tasks, order[i], error);
      continue;
    }
    struct vx_stop stop = {has_other_work, crew, 0, false};
    const struct vx_worker helper = {crew->lanes[who - 1], &stop};
    crew->patience = (int)(next_random(&crew->random) % 4);
    bool done = tasks->run(tasks->ctx, &helper, order[i], &unheard) == VX_OK;
    crew->helped += done;
    crew->given_up += !done;
    if (!done) again[left++] = order[i];
  }
  for (int32_t i = 0; i < left && status == VX_OK; i++) status = do_own(crew, own, tasks, again[i], error);
  return status;
}

static const struct vx_chain crop = {
    1, {{VX_STEP_TRANSFORM, {.transform = {.cropped = true, .crop = {{0, 0, 0}, {90, 90, 90}}}}}}};
static struct vx_chain_report report;

static struct crew crew_of(int helpers, bool unwilling, uint64_t seed) {
  struct crew crew = {.random = {seed}, .helpers = helpers, .unwilling = unwilling, .stop_after = -1};
  for (int i = 0; i < helpers; i++) {
    struct error error;
    assert_int_equal(backend->lane_open(device, VX_LANE_QUICK, &crew.lanes[i], &error), VX_OK);
  }
  return crew;
}

static void dismiss(struct crew *crew) {
  for (int i = 0; i < crew->helpers; i++) backend->lane_close(crew->lanes[i]);
}

// Divides a lone cloud into sections, one of them empty, if the operation has sections.
static void cut_sections(struct crew *crew, struct vx_job *job) {
  int32_t left = job->point_counts[0];
  if (!vx_operations[job->op].sectioned || job->num_clouds != 1) return;
  for (int i = 0; i < SECTIONS; i++) {
    crew->section_points[i] = i == SECTIONS - 1 ? left : i == 2 ? 0 : left / 3;
    left -= crew->section_points[i];
  }
  memset(crew->section_counts, 0x5A, sizeof crew->section_counts);
  job->sections = (struct vx_sections){SECTIONS, crew->section_points, crew->section_counts};
}

static enum vx_status run_clouds(struct crew *crew, const struct vx_job *asked, int32_t clouds, const int32_t *counts) {
  static const struct vx_caller alone = {.output = give, .stopped = is_stopped};
  static const struct vx_caller helped = {.output = give, .stopped = is_stopped, .parallel_for = parallel_for};
  const void *rows = asked->inputs[VX_POINTS].dtype == VX_FLOAT16 ? (const void *)halves : points;
  struct vx_job job = job_over(asked, rows, clouds, counts);
  memset(&crew->outcome, 0, sizeof crew->outcome);
  job.sample_counts = samples;
  job.caller = crew->helpers > 0 ? &helped : &alone;
  job.helpers = crew->helpers;
  job.ctx = crew;
  job.row_counts = crew->outcome.row_counts;
  cut_sections(crew, &job);
  crew->outcome.status = backend->run(lane, &job, &crew->outcome.error);
  crew->outcome.counts = job.counts;
  return crew->outcome.status;
}

static enum vx_status run_with(struct crew *crew, const struct vx_job *asked) {
  return run_clouds(crew, asked, CLOUDS, sizes);
}

// ---- jobs -----------------------------------------------------------------------------------------------------------

enum { KINDS = 12 };

static struct vx_job job_of_kind(int kind) {
  struct vx_job job = plain_params(100);
  struct vx_voxelize *params = &job.params.voxelize;
  params->max_voxels = 2600;  // three clouds have more points
  switch (kind) {
    case 1: params->order = VX_ORDER_KEY; break;
    case 2: params->block_filter = (struct vx_block_filter){true, 2, 4, 10, 90}; break;
    case 3: job.inputs[VX_POINTS].dtype = VX_FLOAT16; break;
    case 4: params->sampling = (struct vx_sampling){.enabled = true, .max_work = INT64_MAX}; break;
    case 5:
      params->max_points_per_voxel = 0;
      params->voxel_size[0] = params->voxel_size[1] = params->voxel_size[2] = 20;
      job.tensors = UNCAPPED_TENSORS;
      break;
    case 6:
      params->voxel_size[2] = 50;
      params->intensity = 3;
      job.tensors = VX_CELL_MAPS | VX_PILLAR_MAPS | VX_TENSOR_BIT(VX_BEV_FEATURES);
      break;
    case 7:
      params->voxel_size[2] = 100;
      params->order = VX_ORDER_KEY;
      params->encoder.num_layers = 1;
      params->encoder.layers[0] = (struct vx_encoder_layer){weights[0], biases, COLUMNS + 6, 8};
      job.tensors = VX_TENSOR_BIT(VX_BEV_FEATURES) | VX_TENSOR_BIT(VX_ENCODED_FEATURES);
      break;
    case 8:
      job.op = VX_FPS;
      job.params.fps = (struct vx_fps){.sampling = {.enabled = true, .start = 0, .max_work = INT64_MAX}};
      job.tensors =
          VX_TENSOR_BIT(VX_SAMPLED_INDICES) | VX_TENSOR_BIT(VX_SAMPLED_POINTS) | VX_TENSOR_BIT(VX_SAMPLED_DISTANCES);
      break;
    case 9:
      job.op = VX_POINTS_OP;
      job.chain = &crop;
      job.report = &report;
      job.tensors = VX_CHAIN_TENSORS;
      break;
    case 10:
      params->choice = (struct vx_choice){VX_VOXELS_NEAR, VX_POINTS_RANDOM, 5};
      params->max_points_per_voxel = 1;
      break;
    case 11:
      params->choice.voxels_by = VX_VOXELS_FULL;
      params->voxel_size[2] = 50;
      params->intensity = 3;
      job.tensors = ALL_TENSORS | VX_CELL_MAPS | VX_PILLAR_MAPS;
      break;
    default: break;
  }
  return job;
}

static void assert_same(const struct outcome *got, const struct outcome *expected) {
  if (got->status != VX_OK) fail_msg("%s", got->error.text);
  assert_memory_equal(&got->counts, &expected->counts, sizeof got->counts);
  assert_memory_equal(got->row_counts, expected->row_counts, sizeof got->row_counts);
  assert_int_equal(got->layout.bytes, expected->layout.bytes);
  for (int t = 0; t < VX_TENSOR_COUNT; t++) {
    if (got->layout.tensors & VX_TENSOR_BIT(t)) {
      const unsigned char *bytes = got->block + got->layout.offset[t];
      assert_memory_equal(bytes, expected->block + expected->layout.offset[t], expected->layout.shape[t].bytes);
    }
  }
}

static void check_crews(bool unwilling) {
  static const int helpers[] = {1, 2, 3, MOST_HELPERS};
  make_points();
  for (int kind = 0; kind < KINDS; kind++) {
    const struct vx_job asked = job_of_kind(kind);
    struct crew alone = crew_of(0, false, 0);
    if (run_with(&alone, &asked) != VX_OK) fail_msg("kind %d: %s", kind, alone.outcome.error.text);
    for (int i = 0; i < 4; i += 1 + PART / 2) {
      struct crew crew = crew_of(helpers[i], unwilling, 100 * (uint64_t)kind + (uint64_t)i);
      int runs = 0;
      for (int round = 0; round < 3; round += PART, runs++) {
        (void)run_with(&crew, &asked);
        assert_same(&crew.outcome, &alone.outcome);
        free(crew.outcome.block);
      }
      assert_true(crew.loops >= runs && crew.helped > 0);
      assert_int_equal(crew.given_up > 0, unwilling && kind != 9);  // kind 9 has short tasks, which are never given up
      dismiss(&crew);
    }
    free(alone.outcome.block);
  }
}

// ---- tests ----------------------------------------------------------------------------------------------------------

static void workers_in_any_number_and_order_give_the_same_bytes(void **state) {
  (void)state;
  check_crews(false);
}

static void tasks_that_helpers_give_up_are_done_again(void **state) {
  (void)state;
  check_crews(true);
}

// Compares a cloud that helpers share, cut into segments, with the same cloud computed by one worker.
static void check_lone(const struct vx_job *asked, int32_t count, int helpers, bool unwilling) {
  struct crew alone = crew_of(0, false, 0), crew = crew_of(helpers, unwilling, (uint64_t)count + (uint64_t)helpers);
  if (run_clouds(&alone, asked, 1, &count) != VX_OK) fail_msg("%s", alone.outcome.error.text);
  for (int round = 0; round < 3; round += PART) {
    (void)run_clouds(&crew, asked, 1, &count);
    assert_same(&crew.outcome, &alone.outcome);
    assert_memory_equal(crew.section_counts, alone.section_counts, sizeof alone.section_counts);
    free(crew.outcome.block);
  }
  assert_true(crew.helped > 0);
  dismiss(&crew);
  free(alone.outcome.block);
}

static void a_lone_cloud_is_cut_and_keeps_its_bytes(void **state) {
  (void)state;
  static const int32_t counts[] = {2 * 8192, POINTS - 1, POINTS};
  static const int helpers[] = {1, 2, MOST_HELPERS};
  make_points();
  for (int kind = 0; kind < KINDS; kind++) {
    struct vx_job asked = job_of_kind(kind);
    if (kind == 8) continue;  // one cloud is one task
    for (int i = 0; i < 3; i++)
      for (int j = 0; j < 3; j++) check_lone(&asked, counts[i], helpers[j], i == 1);
    if (kind == 0) {  // nearly every point has a voxel of its own
      asked.params.voxelize.max_voxels = POINTS;
      check_lone(&asked, POINTS, 2, false);
    }
  }
}

// Most points are in the cell of the point before. Such runs may continue in the next segment.
static void runs_of_points_may_cross_cuts(void **state) {
  (void)state;
  struct random random = {37};
  make_points();
  for (int i = 1; i < POINTS; i++)
    if (next_random(&random) % 4 != 0) memcpy(points[i], points[i - 1], sizeof points[i]);
  for (int kind = 0; kind < KINDS; kind++) {
    const struct vx_job asked = job_of_kind(kind);
    if (kind != 8) check_lone(&asked, POINTS - kind, 1 + kind % 3, false);
  }
}

static int loops_of(int32_t count, int helpers) {
  const struct vx_job asked = job_of_kind(0);
  struct crew crew = crew_of(helpers, false, 1);
  assert_int_equal(run_clouds(&crew, &asked, 1, &count), VX_OK);
  free(crew.outcome.block);
  dismiss(&crew);
  return crew.loops;
}

// Cutting a cloud takes five parallel steps, which do not pay for a small cloud.
static void only_large_clouds_are_cut(void **state) {
  (void)state;
  make_points();
  assert_int_equal(loops_of(2 * 8192, 3), loops_of(2 * 8192 - 1, 3) + 5);
}

static void maps_of_a_batch_are_those_of_its_clouds(void **state) {
  (void)state;
  make_points();
  for (int kind = 6; kind <= 7; kind++) {
    const struct vx_job asked = job_of_kind(kind);
    struct crew crew = crew_of(2, false, 5);
    assert_int_equal(run_with(&crew, &asked), VX_OK);
    size_t bytes = crew.outcome.layout.shape[VX_BEV_FEATURES].bytes / CLOUDS;
    const unsigned char *map = tensor(&crew.outcome, VX_BEV_FEATURES);
    for (int32_t cloud = 0, begin = 0; cloud < CLOUDS; begin += sizes[cloud++]) {
      struct outcome alone = run_scan(&asked, points[begin], sizes[cloud]);
      assert_int_equal(alone.layout.shape[VX_BEV_FEATURES].bytes, bytes);
      assert_memory_equal(map + (size_t)cloud * bytes, tensor(&alone, VX_BEV_FEATURES), bytes);
      free(alone.block);
    }
    free(crew.outcome.block);
    dismiss(&crew);
  }
}

static void a_job_is_stopped_between_its_tasks(void **state) {
  (void)state;
  const struct vx_job asked = job_of_kind(8);
  make_points();
  for (int after = 0; after < 3; after++) {
    struct crew crew = crew_of(2, false, 7);
    crew.stop_after = after;
    assert_int_equal(run_with(&crew, &asked), VX_STOPPED);
    assert_string_equal(crew.outcome.error.text, "ended before all samples were chosen");
    free(crew.outcome.block);
    dismiss(&crew);
  }
}

// A task that needs more scratch than a helper's lane may keep is left to the job's own lane.
static void helpers_take_little_scratch(void **state) {
  (void)state;
  enum { LARGE = 2600000 };
  const int32_t counts[2] = {LARGE, 10};
  float *flat = calloc((size_t)LARGE + 10, COLUMNS * sizeof *flat);
  struct crew crew = crew_of(1, false, 3);
  struct vx_job asked = plain_params(2000);
  struct vx_job job = job_over(&asked, flat, 2, counts);
  struct error error;
  job.caller = &(const struct vx_caller){.output = give, .parallel_for = parallel_for};
  job.ctx = &crew;
  job.row_counts = crew.outcome.row_counts;
  job.params.voxelize.max_voxels = LARGE;
  for (int i = 0; i < 3; i++) {
    assert_int_equal(backend->run(lane, &job, &error), VX_OK);
    assert_int_equal(job.counts.voxels_kept, 2);
    free(crew.outcome.block);
  }
  assert_int_equal(crew.helped, 0);
  assert_true(crew.given_up > 0);
  dismiss(&crew);
  free(flat);
}

static bool never_asked(void *ctx, size_t bytes) {
  (void)ctx;
  fail_msg("asked for %zu bytes of scratch", bytes);
  return false;
}

// A cloud is cut only if the lane need not ask the caller for the scratch of the cut.
static void a_cut_asks_for_no_scratch(void **state) {
  (void)state;
  enum { LARGE = 1000000 };
  float *flat = calloc(LARGE, COLUMNS * sizeof *flat);
  struct error error;
  int cuts = 0;
  for (int32_t count = 400000; count <= LARGE; count += 100000) {
    struct crew crew = crew_of(3, false, 3);
    struct vx_job asked = plain_params(2000), job = job_over(&asked, flat, 1, &count);
    struct vx_lane *fresh;
    assert_int_equal(backend->lane_open(device, VX_LANE_QUICK, &fresh, &error), VX_OK);
    job.caller = &(const struct vx_caller){.output = give, .scratch = never_asked, .parallel_for = parallel_for};
    job.helpers = crew.helpers;
    job.ctx = &crew;
    job.row_counts = crew.outcome.row_counts;
    assert_int_equal(backend->run(fresh, &job, &error), VX_OK);
    assert_int_equal(job.counts.kept + job.counts.over_voxel_cap, count);
    cuts += crew.loops > 0;  // only a cut gives tasks: all points are in one voxel
    free(crew.outcome.block);
    backend->lane_close(fresh);
    dismiss(&crew);
  }
  assert_in_range(cuts, 1, (LARGE - 400000) / 100000);  // the largest clouds are not cut
  free(flat);
}

int main(void) {
  // Only the CPU's lanes help each other.
  if (setenv("VOXELD_TEST_BACKEND", "cpu", 1) != 0) return 1;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(workers_in_any_number_and_order_give_the_same_bytes),
      cmocka_unit_test(tasks_that_helpers_give_up_are_done_again),
      cmocka_unit_test(a_lone_cloud_is_cut_and_keeps_its_bytes),
      cmocka_unit_test(runs_of_points_may_cross_cuts),
      cmocka_unit_test(only_large_clouds_are_cut),
      cmocka_unit_test(maps_of_a_batch_are_those_of_its_clouds),
      cmocka_unit_test(a_job_is_stopped_between_its_tasks),
      cmocka_unit_test(helpers_take_little_scratch),
      cmocka_unit_test(a_cut_asks_for_no_scratch),
  };
  return cmocka_run_group_tests(tests, open_backend, close_backend);
}
