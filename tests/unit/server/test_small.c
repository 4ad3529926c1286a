// Small jobs run at once on the calling thread. Their answers have the same bytes as a worker's.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <sched.h>
#include <string.h>

#include "server/base/base.h"
#include "server/jobs/held.h"
#include "tests/support/job_room.h"

enum { MOST_POINTS = 1000, ROOM = 6 };  // ROOM: maximum columns of a row

static struct options options;
static struct job job;
static atomic_int finished;

static int open_room(void **state) {
  (void)state;
  options = (struct options){.workers = 3,
                             .long_workers = 1,
                             .io_threads = 2,
                             .small_job_points = MOST_POINTS,
                             .queue_depth = 64,
                             .max_response_bytes = 8 << 20,
                             .memory_budget_bytes = 64 << 20};
  open_job_room(&options);
  return 0;
}

static void on_done(struct job *done) {
  (void)done;
  atomic_fetch_add(&finished, 1);
}

// `query`: "a=1&b=2".
static void set(const char *query) {
  struct error error;
  while (*query) {
    size_t length = strcspn(query, "&"), name = strcspn(query, "=");
    if (!job_request_set(&job.asked, query, name, query + name + 1, length - name - 1, &error))
      fail_msg("%s", error.text);
    query += length + (query[length] == '&');
  }
}

static void make(enum vx_op op, int64_t points, const char *query) {
  struct error error;
  job_init(&job, &jobs.services);
  job.client = client;
  job.spec.id = "test";
  job.spec.gone = &gone;
  job.spec.done = on_done;
  job.spec.started_ns = job.queued_ns = clock_ns();
  job.deadline_ns = INT64_MAX;
  job_request_init(&job.asked, op);
  if (op == VX_VOXELIZE) set("point_cloud_range=0,0,0,10,10,10&voxel_size=0.1,0.1,0.1");
  set(query);
  if (!job_request_finish(&job.asked, &error)) fail_msg("%s: %s", query, error.text);
  if (!job_request_split(&job.asked, points, &error)) fail_msg("%s: %s", query, error.text);
  assert_true(job_acquire_queue_slot(&job));
  assert_true(job_acquire_rows(&job, (size_t)points * ROOM * sizeof(float) + 1));
  job_use_rows(&job);
  float *values = (float *)(void *)job_body(&job);
  for (int64_t i = 0; i < points * ROOM; i++) values[i] = (float)(i * 7919 % 10007) / 1000.0f;
}

static void give_back(void) {
  job_release(&job);
  job_release_buffer(&job.held.output);
  assert_int_equal(jobs.buffers.in_use, 0);
}

static bool is_run(enum vx_op op, int64_t points, const char *query) {
  unsigned long long before = atomic_load(&jobs.small.run);
  make(op, points, query);
  bool ran = small_run(&jobs.small, &job);
  assert_int_equal(atomic_load(&jobs.small.run) - before, ran);
  assert_int_equal(job.result.answered, ran);
  give_back();
  return ran;
}

static void plain_clouds_of_few_points(void **state) {
  (void)state;
  assert_true(is_run(VX_VOXELIZE, 0, ""));
  assert_true(is_run(VX_VOXELIZE, MOST_POINTS, ""));
  assert_false(is_run(VX_VOXELIZE, MOST_POINTS + 1, ""));
  assert_true(is_run(VX_VOXELIZE, MOST_POINTS, "feature=points,mean&max_points_per_voxel=5&order=key"));
  assert_true(is_run(VX_VOXELIZE, MOST_POINTS, "num_features=5"));
}

static void what_may_take_longer_is_left_to_workers(void **state) {
  (void)state;
  assert_false(is_run(VX_FPS, 10, "num_samples=2"));
  assert_false(is_run(VX_TRANSFORM, 10, "crop=0,0,0,5,5,5"));
  assert_false(is_run(VX_VOXELIZE, 10, "fps=2"));
  assert_false(is_run(VX_VOXELIZE, 10, "point_counts=4,6"));
  assert_false(is_run(VX_VOXELIZE, 10, "block_filter=2,3,0.1,5"));
  assert_false(is_run(VX_VOXELIZE, 10, "num_features=6"));
  assert_false(is_run(VX_VOXELIZE, 10, "dtype=float16"));
  assert_false(is_run(VX_VOXELIZE, 10, "feature_dtype=float16"));
}

// A voxel with room for 19 points has 324 bytes. A small job's output may have 131,072 bytes: 400 such voxels fit, 425
// do not.
static void what_could_have_a_large_output_is_left_to_workers(void **state) {
  (void)state;
  assert_false(is_run(VX_VOXELIZE, 10, "outputs=occupancy"));  // a million cells
  assert_true(is_run(VX_VOXELIZE, 400, "feature=points&max_points_per_voxel=19"));
  assert_false(is_run(VX_VOXELIZE, 425, "feature=points&max_points_per_voxel=19"));
  make(VX_VOXELIZE, 425, "feature=points&max_points_per_voxel=19");
  job.spec.kind = answer_kind_of("application/json");  // an answer without tensors
  assert_true(small_run(&jobs.small, &job));
  give_back();
}

static void what_is_not_direct_is_left_to_workers(void **state) {
  (void)state;
  make(VX_VOXELIZE, 10, "");
  job.spec.answer_coding = CODING_GZIP;
  assert_false(small_run(&jobs.small, &job));
  job.spec.answer_coding = CODING_NONE;
  job.asked.format = FORMAT_PCD;
  assert_false(small_run(&jobs.small, &job));
  job.asked.format = FORMAT_RAW;
  strcpy(job.asked.output_region.name, "out");
  assert_false(small_run(&jobs.small, &job));
  job.asked.output_region.name[0] = '\0';
  strcpy(job.asked.points_region.name, "in");
  assert_false(small_run(&jobs.small, &job));
  job.asked.points_region.name[0] = '\0';
  strcpy(job.asked.stream.name, "roof");
  assert_false(small_run(&jobs.small, &job));
  job.asked.stream.name[0] = '\0';
  job.asked.job.params.voxelize.encoder.num_layers = 1;
  assert_false(small_run(&jobs.small, &job));
  job.asked.job.params.voxelize.encoder.num_layers = 0;
  job.infer = &(struct infer){0};
  assert_false(small_run(&jobs.small, &job));
  job.infer = NULL;
  assert_int_equal(job.held.queue_slot, SHARE_JOBS);
  assert_true(small_run(&jobs.small, &job));
  assert_int_equal(job.held.queue_slot, SHARES);
  give_back();
}

static void a_search_for_neighbours_is_long(void **state) {
  (void)state;
  make(VX_VOXELIZE, 1, "steps=o:statistical_outlier&o.mean_k=1&o.std_mul=1");
  assert_int_equal(job_lane_use(&job), VX_LANE_LONG);
  assert_int_equal(job.held.queue_slot, SHARE_LONG_JOBS);
  give_back();
  make(VX_VOXELIZE, 1, "steps=o:radius_outlier&o.radius=1&o.min_neighbors=1");
  assert_int_equal(job_lane_use(&job), VX_LANE_QUICK);
  give_back();
}

static int64_t free_lanes(void) {
  int64_t lanes = 0;
  for (int64_t i = 0; i < jobs.small.count; i++) lanes += !atomic_load(&jobs.small.lane[i].taken);
  return lanes;
}

static void without_a_free_lane_workers_do_it(void **state) {
  (void)state;
  assert_int_equal(free_lanes(), 2);
  for (int i = 0; i < 2; i++) atomic_store(&jobs.small.lane[i].taken, true);
  assert_false(is_run(VX_VOXELIZE, 10, ""));
  for (int i = 0; i < 2; i++) atomic_store(&jobs.small.lane[i].taken, false);
  assert_true(is_run(VX_VOXELIZE, 10, ""));
  assert_int_equal(free_lanes(), 2);
}

static void a_job_that_is_too_late_has_its_problem(void **state) {
  (void)state;
  make(VX_VOXELIZE, 10, "");
  job.deadline_ns = clock_ns() - 1;
  assert_true(small_run(&jobs.small, &job));
  assert_false(job.result.answered);
  assert_int_equal(job.result.error.kind, ERROR_DEADLINE);
  give_back();
}

static void the_bytes_are_a_workers(void **state) {
  (void)state;
  static unsigned char expected[128 << 10];
  static const char query[] =
      "feature=points,mean&max_points_per_voxel=3&voxel_size=0.01,0.01,0.01";  // nearly every point has its own voxel
  make(VX_VOXELIZE, MOST_POINTS, query);
  assert_true(jobs_submit(&jobs, &job));
  while (atomic_load(&finished) == 0) sched_yield();
  assert_true(job.result.answered);
  assert_true(jobs.helpers.tasks > 0);
  size_t bytes = job.tensor_layout.bytes;
  assert_in_range(bytes, 1, sizeof expected);
  memcpy(expected, job.held.output->data + job.head_bytes, bytes);
  give_back();
  make(VX_VOXELIZE, MOST_POINTS, query);
  uint64_t pieces = jobs.helpers.tasks;
  assert_true(small_run(&jobs.small, &job));
  assert_int_equal(jobs.helpers.tasks, pieces);  // a small job publishes no tasks
  assert_int_equal(job.tensor_layout.bytes, bytes);
  assert_memory_equal(job.held.output->data + job.head_bytes, expected, bytes);
  give_back();
}

#define IN_ROOM(test) cmocka_unit_test_setup_teardown(test, open_room, close_job_room)

int main(void) {
  const struct CMUnitTest tests[] = {
      IN_ROOM(plain_clouds_of_few_points),
      IN_ROOM(what_may_take_longer_is_left_to_workers),
      IN_ROOM(what_could_have_a_large_output_is_left_to_workers),
      IN_ROOM(what_is_not_direct_is_left_to_workers),
      IN_ROOM(a_search_for_neighbours_is_long),
      IN_ROOM(without_a_free_lane_workers_do_it),
      IN_ROOM(a_job_that_is_too_late_has_its_problem),
      IN_ROOM(the_bytes_are_a_workers),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
