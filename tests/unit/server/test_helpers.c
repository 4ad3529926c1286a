// Helpers, with tasks that wait for one another, and with whole jobs.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "kernels/backends.h"
#include "server/base/base.h"
#include "server/jobs/held.h"
#include "tests/support/job_room.h"

enum { CLOUDS = 6, COLUMNS = 4, JOBS = 8 };
static const char sizes[] = "700,0,1500,1,900,400";
enum { POINTS = 700 + 1500 + 1 + 900 + 400, LONE_POINTS = 30000 };

// The points of a lone cloud are split into tasks.
enum kind { BATCH, SAMPLES, LONE, KINDS };

static struct options options;
static struct job own_job = {.services = &jobs.services};
static struct vx_lane *lane;    // of this thread as the job's worker
static struct vx_lane *second;  // of this thread as a helper

static void open_room(int64_t workers) {
  struct error error;
  options = (struct options){.workers = workers,
                             .long_workers = workers,
                             .queue_depth = 64,
                             .max_response_bytes = 8 << 20,
                             .memory_budget_bytes = 64 << 20};
  open_job_room(&options);
  assert_int_equal(vx_cpu_backend.lane_open(jobs.devices.cpu.handle, VX_LANE_QUICK, &lane, &error), VX_OK);
  assert_int_equal(vx_cpu_backend.lane_open(jobs.devices.cpu.handle, VX_LANE_QUICK, &second, &error), VX_OK);
}

static void close_room(void) {
  vx_cpu_backend.lane_close(lane);
  vx_cpu_backend.lane_close(second);
  (void)close_job_room(NULL);
}

// ---- tasks of the test ----------------------------------------------------------------------------------------------

enum { MOST_TASKS = 200 };

static struct {
  atomic_int done[MOST_TASKS];
  atomic_int begun;       // tasks that helpers have begun
  atomic_bool stop;       // the job should stop
  bool await_help;        // the own worker waits until a helper has begun a task
  atomic_bool hold;       // the first helper's task ends only if it is stopped
  void (*then)(void);     // called by the own worker after it has waited
  enum vx_status status;  // returned by the own worker's tasks
} test;

static bool is_stopped(void *ctx) {
  (void)ctx;
  return atomic_load(&test.stop);
}

static enum vx_status do_task(void *ctx, const struct vx_worker *worker, int32_t task, struct error *error) {
  (void)ctx, (void)error;
  if (worker->lane == lane) {
    while (test.await_help && atomic_load(&test.begun) == 0) sched_yield();
    test.await_help = false;
    if (test.then) test.then();
    test.then = NULL;
    if (test.status == VX_OK) atomic_fetch_add(&test.done[task], 1);
    return test.status;
  }
  atomic_fetch_add(&test.begun, 1);
  for (bool hold = atomic_exchange(&test.hold, false); hold && !vx_stop_now(worker->stop);) sched_yield();
  if (vx_stop_now(worker->stop)) return VX_STOPPED;
  atomic_fetch_add(&test.done[task], 1);
  return VX_OK;
}

static enum vx_status spread(int32_t count) {
  struct vx_stop stop = {is_stopped, NULL, 0, false};
  const struct vx_worker own = {lane, &stop};
  const struct vx_tasks tasks = {count, do_task, NULL};
  struct error error;
  return helpers_parallel_for(&own_job, &own, &tasks, &error);
}

static void assert_each_done(int32_t count, int times) {
  for (int32_t i = 0; i < count; i++) assert_int_equal(atomic_load(&test.done[i]), times);
}

static int64_t sleepers(void) {
  int64_t asleep = 0;
  for (int use = 0; use < VX_LANE_USES; use++) {
    struct queue *queue = &jobs.queues[use];
    lock_acquire(&queue->lock);
    for (const struct queue_waiter *waiter = queue->idle[QUEUE_CPU]; waiter; waiter = waiter->next) asleep++;
    lock_release(&queue->lock);
  }
  return asleep;
}

// Waits until all workers sleep, since only sleeping workers can be called.
static void await_sleepers(void) {
  while (sleepers() < jobs.workers.count) sched_yield();
}

static void each_piece_is_done_once(void **state) {
  (void)state;
  open_room(3);
  int rounds = 0;
  for (; rounds < 50 || jobs.helpers.helped == 0; rounds++) assert_int_equal(spread(MOST_TASKS), VX_OK);
  assert_each_done(MOST_TASKS, rounds);
  assert_int_equal(jobs.helpers.tasks, (uint64_t)rounds * MOST_TASKS);
  close_room();
}

// ---- many jobs at once ----------------------------------------------------------------------------------------------

enum { OWNERS = 8, ROUNDS = 1000 };

struct round {
  const struct vx_lane *lane;  // the lane of the job's worker
  atomic_int done[MOST_TASKS], calls;
  int32_t count, failing;  // failing: task at which the job's worker fails; -1: none
  atomic_bool over;
};

// Helpers give up every third task.
static enum vx_status do_often_in_vain(void *ctx, const struct vx_worker *worker, int32_t task, struct error *error) {
  (void)error;
  struct round *round = ctx;
  bool vain = worker->lane == round->lane ? task == round->failing : atomic_fetch_add(&round->calls, 1) % 3 == 0;
  assert_false(atomic_load(&round->over));
  assert_in_range(task, 0, round->count - 1);
  if (vain || task % 16 == 0) sched_yield();  // lets other threads run
  if (!vain) atomic_fetch_add(&round->done[task], 1);
  return vain ? VX_STOPPED : VX_OK;
}

static void *publish_often(void *unused) {
  struct vx_lane *own_lane;
  struct error error;
  assert_int_equal(vx_cpu_backend.lane_open(jobs.devices.cpu.handle, VX_LANE_QUICK, &own_lane, &error), VX_OK);
  struct vx_stop stop = {is_stopped, NULL, 0, false};
  const struct vx_worker own = {own_lane, &stop};
  for (int r = 0; r < ROUNDS || atomic_load(&jobs.helpers.given_up) == 0; r++) {
    struct round round = {.lane = own_lane, .count = 1 + r * 31 % MOST_TASKS, .failing = r % 4 == 3 ? r % 7 : -1};
    const struct vx_tasks tasks = {round.count, do_often_in_vain, &round};
    enum vx_status status = helpers_parallel_for(&own_job, &own, &tasks, &error);
    atomic_store(&round.over, true);
    for (int32_t i = 0; i < round.count; i++) assert_in_range(atomic_load(&round.done[i]), status == VX_OK ? 1 : 0, 1);
  }
  vx_cpu_backend.lane_close(own_lane);
  return unused;
}

// A helper never works in a slot that another job has taken over.
static void many_jobs_share_the_helpers(void **state) {
  (void)state;
  pthread_t owners[OWNERS];
  open_room(OWNERS);
  for (int i = 0; i < OWNERS; i++) assert_int_equal(pthread_create(&owners[i], NULL, publish_often, NULL), 0);
  for (int i = 0; i < OWNERS; i++) assert_int_equal(pthread_join(owners[i], NULL), 0);
  assert_int_equal(jobs.helpers.open, 0);
  assert_int_equal(jobs.helpers.at_work, 0);
  assert_true(jobs.helpers.given_up > 0);
  close_room();
}

// ---- jobs -----------------------------------------------------------------------------------------------------------

static struct job all[JOBS];
static struct job *const job = &all[0];
static atomic_int finished;

static void on_done(struct job *done) {
  (void)done;
  atomic_fetch_add(&finished, 1);
}

static void await(int count) {
  while (atomic_load(&finished) < count) sched_yield();
  atomic_store(&finished, 0);
}

static void set(struct job *made, const char *name, const char *value) {
  struct error error;
  assert_true(job_request_set(&made->asked, name, strlen(name), value, strlen(value), &error));
}

static void make(struct job *made, enum kind kind) {
  struct error error;
  int64_t points = kind == LONE ? LONE_POINTS : POINTS;
  job_init(made, &jobs.services);
  made->client = client;
  made->spec.id = "test";
  made->spec.gone = &gone;
  made->spec.done = on_done;
  made->spec.started_ns = made->queued_ns = clock_ns();
  made->deadline_ns = INT64_MAX;
  job_request_init(&made->asked, kind == SAMPLES ? VX_FPS : VX_VOXELIZE);
  if (kind != LONE) set(made, "point_counts", sizes);
  if (kind == SAMPLES) {
    set(made, "num_samples", "300,0,700,1,2,400");
  } else {
    set(made, "point_cloud_range", "0,0,0,10,10,10");
    set(made, "voxel_size", "0.1,0.1,0.1");
    set(made, "order", kind == LONE ? "first" : "key");
  }
  assert_true(job_request_finish(&made->asked, &error));
  assert_true(job_request_split(&made->asked, points, &error));
  assert_true(job_acquire_queue_slot(made));
  assert_true(job_acquire_rows(made, (size_t)points * COLUMNS * sizeof(float)));
  job_use_rows(made);
  float *values = (float *)(void *)job_body(made);
  for (int64_t i = 0; i < points * COLUMNS; i++) values[i] = (float)(i * 7919 % 10007) / 1000.0f;
}

static void run_all(void) {
  for (int i = 0; i < JOBS; i++) make(&all[i], (enum kind)(i % KINDS));
  for (int i = 0; i < JOBS; i++) assert_true(jobs_submit(&jobs, &all[i]));
  await(JOBS);
}

static void the_number_of_workers_does_not_show(void **state) {
  (void)state;
  static unsigned char expected[KINDS][2 << 20];
  size_t bytes[KINDS] = {0};
  static const int workers[] = {1, 2, 3, 17};
  for (int w = 0; w < 4; w++) {
    open_room(workers[w]);
    for (int round = 0; round < 10 || (w > 0 && jobs.helpers.helped == 0); round++) {
      run_all();
      for (int i = 0; i < JOBS; i++) {
        assert_true(all[i].result.answered);
        const char *tensors = all[i].held.output->data + all[i].head_bytes;
        int kind = i % KINDS;
        if (bytes[kind] == 0) {
          bytes[kind] = all[i].tensor_layout.bytes;
          assert_in_range(bytes[kind], 1, sizeof expected[0]);
          memcpy(expected[kind], tensors, bytes[kind]);
        }
        assert_int_equal(all[i].tensor_layout.bytes, bytes[kind]);
        assert_memory_equal(tensors, expected[kind], bytes[kind]);
        job_release_buffer(&all[i].held.output);
      }
    }
    close_room();
  }
}

// ---- helpers that must stop -----------------------------------------------------------------------------------------

static void submit_long_job(void) {
  make(job, SAMPLES);
  assert_true(jobs_submit(&jobs, job));
}

// The only long worker helps with a task that never ends. When a job comes to the long queue, the worker gives up the
// task. The worker of the task's job, which is this thread, then runs the task.
static void a_helper_goes_back_to_its_queue(void **state) {
  (void)state;
  open_room(1);
  await_sleepers();
  test.await_help = true;
  atomic_store(&test.hold, true);
  test.then = submit_long_job;
  assert_int_equal(spread(2), VX_OK);
  assert_each_done(2, 1);
  await(1);
  assert_true(job->result.answered);
  job_release_buffer(&job->held.output);
  assert_true(jobs.helpers.given_up > 0);
  close_room();
}

// MOST_HELPERS helpers, for which a slot has room, begin a task; then all give up.
static enum vx_status do_in_vain(void *ctx, const struct vx_worker *worker, int32_t task, struct error *error) {
  if (worker->lane == lane) return do_task(ctx, worker, task, error);
  atomic_fetch_add(&test.begun, 1);
  while (atomic_load(&test.begun) < MOST_HELPERS) sched_yield();
  return VX_STOPPED;
}

static void offer_one_more(void) {
  while (atomic_load(&jobs.helpers.given_up) < MOST_HELPERS) sched_yield();
  helpers_help(&jobs.helpers, second, &jobs.queues[VX_LANE_QUICK]);
}

// A slot has room for MOST_HELPERS given-up tasks.
static void no_more_give_up_than_have_room(void **state) {
  (void)state;
  struct vx_stop stop = {is_stopped, NULL, 0, false};
  const struct vx_tasks tasks = {MOST_TASKS, do_in_vain, NULL};
  struct error error;
  open_room(MOST_HELPERS + 20);
  await_sleepers();
  test.await_help = true;
  test.then = offer_one_more;
  assert_int_equal(helpers_parallel_for(&own_job, &(struct vx_worker){lane, &stop}, &tasks, &error), VX_OK);
  assert_each_done(MOST_TASKS, 1);
  assert_int_equal(jobs.helpers.given_up, MOST_HELPERS);
  assert_int_equal(jobs.helpers.helped, 0);
  close_room();
}

static void stop_job(void) { atomic_store(&test.stop, true); }

static void helpers_stop_with_the_job(void **state) {
  (void)state;
  open_room(1);
  await_sleepers();
  test.await_help = true;
  atomic_store(&test.hold, true);
  test.then = stop_job;
  test.status = VX_STOPPED;
  assert_int_equal(spread(MOST_TASKS), VX_STOPPED);
  assert_each_done(MOST_TASKS, 0);
  assert_int_equal(jobs.helpers.tasks, 0);
  assert_int_equal(jobs.helpers.given_up, 1);
  close_room();
}

static void help_too(void) { helpers_help(&jobs.helpers, second, &jobs.queues[VX_LANE_QUICK]); }

// Runs tasks on `lane`. Within the first, this thread helps on `second`. Returns the number of tasks helped with.
static uint64_t helped_in_passing(void) {
  uint64_t before = jobs.helpers.helped;
  test.then = help_too;
  assert_int_equal(spread(MOST_TASKS), VX_OK);
  return jobs.helpers.helped - before;
}

static void workers_are_bounded(void **state) {
  (void)state;
  open_room(2);
  await_sleepers();
  atomic_fetch_add(&jobs.workers.running[VX_LANE_QUICK], 2);
  assert_int_equal(helped_in_passing(), 0);
  assert_int_equal(helpers_idle(&jobs.helpers), 0);
  atomic_fetch_sub(&jobs.workers.running[VX_LANE_QUICK], 1);
  assert_int_equal(helpers_idle(&jobs.helpers), 1);
  assert_true(helped_in_passing() > 0);
  atomic_fetch_sub(&jobs.workers.running[VX_LANE_QUICK], 1);
  close_room();
}

static void nobody_helps_while_a_gpu_works(void **state) {
  (void)state;
  open_room(2);
  await_sleepers();
  atomic_store(&jobs.devices.working, 1);
  assert_int_equal(helped_in_passing(), 0);
  assert_int_equal(helpers_idle(&jobs.helpers), 0);
  atomic_store(&jobs.devices.working, 0);
  assert_true(helped_in_passing() > 0);
  close_room();
}

static void a_batch_is_stopped_in_a_hurry(void **state) {
  (void)state;
  open_room(3);
  atomic_store(&jobs.services.hurry, true);
  make(job, SAMPLES);
  assert_true(jobs_submit(&jobs, job));
  await(1);
  assert_false(job->result.answered);
  assert_int_equal(job->result.error.kind, ERROR_DRAINING);
  close_room();
}

// All workers have ended.
static void a_closed_room_gets_no_help(void **state) {
  (void)state;
  open_room(2);
  await_sleepers();
  jobs_stop(&jobs);
  assert_int_equal(sleepers(), 0);
  assert_int_equal(spread(MOST_TASKS), VX_OK);
  assert_each_done(MOST_TASKS, 1);
  close_room();
}

static int forget(void **state) {
  (void)state;
  memset(&test, 0, sizeof test);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(each_piece_is_done_once, forget),
      cmocka_unit_test_setup(many_jobs_share_the_helpers, forget),
      cmocka_unit_test_setup(the_number_of_workers_does_not_show, forget),
      cmocka_unit_test_setup(a_helper_goes_back_to_its_queue, forget),
      cmocka_unit_test_setup(no_more_give_up_than_have_room, forget),
      cmocka_unit_test_setup(helpers_stop_with_the_job, forget),
      cmocka_unit_test_setup(workers_are_bounded, forget),
      cmocka_unit_test_setup(nobody_helps_while_a_gpu_works, forget),
      cmocka_unit_test_setup(a_batch_is_stopped_in_a_hurry, forget),
      cmocka_unit_test_setup(a_closed_room_gets_no_help, forget),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
