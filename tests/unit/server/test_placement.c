// The target of a sampling, GPU or CPU, depends on the waiting work, the times measured at the start, and the free
// processors.
#include "server/jobs/placement.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "server/base/base.h"
#include "server/jobs/job.h"
#include "server/jobs/queue.h"

enum { POINTS = 100000, SAMPLES = 2000, PROCESSORS = 16 };
static const bool both[TARGETS] = {true, true}, gpu_only[TARGETS] = {[TARGET_GPU] = true},
                  cpu_only[TARGETS] = {[TARGET_CPU] = true}, none[TARGETS];

static struct placement placement;
static atomic_int gpus;
static atomic_llong running[VX_LANE_USES];
static struct placement_cost cost;

static int enter(void **state) {
  (void)state;
  atomic_store(&gpus, 1);
  for (int use = 0; use < VX_LANE_USES; use++) atomic_store(&running[use], 0);
  placement_init(&placement, &gpus, running, PROCESSORS);
  return 0;
}

static void take_ms(int64_t gpu_ms, int64_t cpu_ms) {
  cost = (struct placement_cost){.ns = {[TARGET_GPU] = gpu_ms * NS_PER_MS, [TARGET_CPU] = cpu_ms * NS_PER_MS}};
}

static enum target choose(double ahead, const bool is_free[TARGETS]) {
  return placement_choose(&placement, &cost, ahead, is_free);
}

// ---- estimated times ------------------------------------------------------------------------------------------------

static int64_t cost_us(enum target target, bool single, int64_t points, int64_t samples) {
  struct placement_cost of = placement_cost(&placement, single, points, samples);
  return of.ns[target] == INT64_MAX ? -1 : of.ns[target] / NS_PER_US;
}

// The times are from a machine with an H200; see docs/contribute/measurements.md.
static void the_constants_give_what_was_measured(void **state) {
  (void)state;
  static const struct {
    int64_t points, samples, us[TARGETS];
  } rows[] = {{16384, 2048, {1252, 817}}, {111425, 2048, {1677, 3912}}, {111425, 16384, {9241, 9029}}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    for (enum target target = 0; target < TARGETS; target++) {
      int64_t us = rows[i].us[target];
      assert_in_range(cost_us(target, true, rows[i].points, rows[i].samples), us * 9 / 10, us * 11 / 10);
    }
}

static void what_was_measured_at_the_start_scales_them(void **state) {
  (void)state;
  static const int64_t factors[TARGETS] = {[TARGET_GPU] = 3, [TARGET_CPU] = 2};
  for (enum target target = 0; target < TARGETS; target++) {
    int64_t before_us = cost_us(target, true, POINTS, SAMPLES);
    placement.measured_ns[target] = placement.measured_ns[target] * factors[target];
    assert_in_range(cost_us(target, true, POINTS, SAMPLES), before_us * factors[target],
                    before_us * factors[target] + 10);
    assert_int_equal(cost_us(target, true, PLACEMENT_POINTS, PLACEMENT_SAMPLES),
                     placement.measured_ns[target] / NS_PER_US);
  }
}

static void the_cpu_takes_no_other_jobs_and_none_that_is_large_or_long(void **state) {
  (void)state;
  assert_int_equal(cost_us(TARGET_CPU, false, 1000, 10), -1);
  assert_true(cost_us(TARGET_GPU, false, 1000, 10) > 0);
  assert_true(cost_us(TARGET_CPU, true, (1 << 18) - 1, 1) > 0);
  assert_int_equal(cost_us(TARGET_CPU, true, 1 << 18, 1), -1);
  assert_true(cost_us(TARGET_CPU, true, POINTS, 250000) > 90000);
  assert_int_equal(cost_us(TARGET_CPU, true, POINTS, 251000), -1);
  atomic_store(&placement.measured_ns[TARGET_CPU], 100 * NS_PER_MS);
  assert_int_equal(cost_us(TARGET_CPU, true, PLACEMENT_POINTS, PLACEMENT_SAMPLES), 100000);
  assert_int_equal(cost_us(TARGET_CPU, true, PLACEMENT_POINTS + 1, PLACEMENT_SAMPLES), -1);
  cost = placement_cost(&placement, false, 1000, 10);
  assert_int_equal(choose(1, both), TARGET_GPU);
  assert_int_equal(choose(1, cpu_only), TARGETS);
}

// ---- the target -----------------------------------------------------------------------------------------------------

static void the_faster_of_two_free_targets(void **state) {
  (void)state;
  take_ms(9, 10);
  assert_int_equal(choose(1, both), TARGET_GPU);
  take_ms(10, 10);
  assert_int_equal(choose(1, both), TARGET_GPU);
  take_ms(10, 9);
  assert_int_equal(choose(1, both), TARGET_CPU);
  assert_int_equal(choose(1, cpu_only), TARGET_CPU);
  assert_int_equal(choose(1, gpu_only), TARGET_GPU);
  assert_int_equal(choose(1, none), TARGETS);
}

static void a_job_waits_for_a_busy_gpu_that_ends_first(void **state) {
  (void)state;
  take_ms(10, 19);
  placement_begin(&placement, TARGET_GPU, &cost);
  placement_begin(&placement, TARGET_GPU, &cost);
  assert_int_equal(choose(1, cpu_only), TARGET_CPU);  // GPU: 20 ms of work on two lanes = 10 ms, and the job's 10 ms
  take_ms(10, 20);
  assert_int_equal(choose(1, cpu_only), TARGETS);
  assert_int_equal(choose(1, both), TARGET_GPU);
  placement_end(&placement, TARGET_GPU, &cost);
  placement_end(&placement, TARGET_GPU, &cost);
  assert_int_equal(placement.running_ns, 0);
  assert_int_equal(choose(1, cpu_only), TARGETS);  // no GPU lane is free yet
}

static void waiting_jobs_count(void **state) {
  (void)state;
  take_ms(10, 36);
  for (int i = 0; i < 2; i++) placement_begin(&placement, TARGET_GPU, &cost);
  for (int i = 0; i < 4; i++) {
    placement_wait_begin(&placement, &cost);
    // GPUs: 10 ms of running jobs, 5 ms for each other waiting job, 10 ms for the job itself.
    assert_int_equal(choose(1, cpu_only), TARGETS);
  }
  placement_wait_begin(&placement, &cost);
  assert_int_equal(choose(1, cpu_only), TARGET_CPU);
  placement_wait_end(&placement, &cost);
  assert_int_equal(choose(1, cpu_only), TARGETS);
}

// `ahead`: the part of all waiting work that is done when the last waiting job of this job's client is done.
static void only_waiting_jobs_ahead_count(void **state) {
  (void)state;
  take_ms(10, 35);
  placement_begin(&placement, TARGET_GPU, &cost);
  for (int i = 0; i < 10; i++) placement_wait_begin(&placement, &cost);
  assert_int_equal(choose(1, cpu_only), TARGET_CPU);
  // GPU: 10 ms of the running job, 20 ms of two others, 10 ms for the job itself.
  assert_int_equal(choose(0.3, cpu_only), TARGET_CPU);
  assert_int_equal(choose(0.2, cpu_only), TARGETS);
  assert_int_equal(choose(0, cpu_only), TARGETS);
}

static void no_job_waits_for_a_busy_cpu(void **state) {
  (void)state;
  take_ms(90, 10);
  placement_begin(&placement, TARGET_CPU, &cost);
  assert_int_equal(choose(1, gpu_only), TARGET_GPU);
  assert_int_equal(placement.running_ns, 0);
  placement_end(&placement, TARGET_CPU, &cost);
  assert_int_equal(placement.running_ns, 0);
}

// ---- free processors ------------------------------------------------------------------------------------------------

static void running_jobs_leave_no_room(void **state) {
  (void)state;
  take_ms(50, 10);
  atomic_store(&running[VX_LANE_QUICK], PROCESSORS - 2);
  assert_true(placement_has_room(&placement));
  atomic_fetch_add(&running[VX_LANE_DETECT], 1);
  assert_false(placement_has_room(&placement));
  assert_int_equal(choose(1, both), TARGET_GPU);
  assert_int_equal(choose(1, cpu_only), TARGETS);
}

static void jobs_on_the_cpu_leave_no_room(void **state) {
  (void)state;
  atomic_store(&running[VX_LANE_QUICK], PROCESSORS - 4);
  for (int i = 0; i < 3; i++) {
    assert_true(placement_has_room(&placement));
    placement_begin(&placement, i == 0 ? TARGET_GPU : TARGET_CPU, &cost);
    atomic_fetch_add(&running[VX_LANE_LONG], 1);
  }
  assert_false(placement_has_room(&placement));
  placement_end(&placement, TARGET_CPU, &cost);
  atomic_fetch_sub(&running[VX_LANE_LONG], 1);
  assert_true(placement_has_room(&placement));
}

static void other_threads_leave_no_room(void **state) {
  (void)state;
  placement_note_used(&placement, (PROCESSORS - 2) * 1000);
  assert_true(placement_has_room(&placement));
  placement_note_used(&placement, (PROCESSORS - 2) * 1000 + 1);
  assert_false(placement_has_room(&placement));
  placement_note_used(&placement, 0);  // placement.used falls gradually
  assert_in_range(atomic_load(&placement.used), 10000, 11000);
  for (int i = 0; i < 20; i++) placement_note_used(&placement, 0);
  assert_in_range(atomic_load(&placement.used), 0, 100);
}

// ---- the queue ------------------------------------------------------------------------------------------------------

static struct queue queue;
static struct clients clients;
static struct client *client;
static struct device devices[TARGETS];

struct popper {
  pthread_t thread;
  struct queue_waiter waiter;
  struct job *job;
};

static struct popper poppers[TARGETS];

static void *pop(void *argument) {
  struct popper *popper = argument;
  popper->job = queue_pop(&queue, &popper->waiter);
  return NULL;
}

static void start(enum target target) {
  struct popper *popper = &poppers[target];
  const int device = popper->waiter.device;
  atomic_store(&popper->waiter.job, NULL);
  assert_int_equal(pthread_create(&popper->thread, NULL, pop, popper), 0);
  for (bool asleep = false; !asleep; sched_yield()) {
    lock_acquire(&queue.lock);
    asleep = queue.idle[device] == &popper->waiter || popper->waiter.job;
    lock_release(&queue.lock);
  }
}

static struct job *join(enum target target) {
  pthread_join(poppers[target].thread, NULL);
  return poppers[target].job;
}

static int open_queue(void **state) {
  static const int64_t limits[SHARES] = {[SHARE_LONG_JOBS] = 64};
  enter(state);
  queue_init(&queue, VX_LANE_LONG);
  queue_tick(&queue, 100, 0);
  queue.placement = &placement;
  for (int target = 0; target < TARGETS; target++) {
    devices[target].load = 0;
    queue_waiter_init(&poppers[target].waiter, target == TARGET_CPU ? QUEUE_CPU : QUEUE_GPU, &devices[target].load);
  }
  if (!clients_init(&clients, 4, limits)) return -1;
  client = clients_acquire(&clients, "", "192.0.2.1");
  return 0;
}

static int close_queue(void **state) {
  (void)state;
  clients_release(&clients, client);
  clients_end(&clients);
  for (int target = 0; target < TARGETS; target++) queue_waiter_end(&poppers[target].waiter);
  queue_end(&queue);
  return 0;
}

static struct job *make(struct job *made, enum vx_op op, int32_t clouds) {
  static atomic_bool gone;
  static int32_t samples = SAMPLES;
  memset(made, 0, sizeof *made);
  made->held.queue_slot = SHARES;
  made->client = client;
  made->spec.gone = &gone;
  made->deadline_ns = INT64_MAX;
  made->asked.job.op = op;
  made->asked.job.params.fps.sampling.enabled = op == VX_FPS;
  made->asked.job.num_clouds = clouds;
  made->asked.job.inputs[0].dims[0] = POINTS;
  made->asked.sample_counts = &samples;
  return made;
}

// Multiplies the measured time. At first the sampling of `make` is estimated at 1.6 ms on a GPU and 3.2 ms on the CPU.
static void slow_down(enum target target, int64_t factor) {
  atomic_store(&placement.measured_ns[target], atomic_load(&placement.measured_ns[target]) * factor);
}

// The target that gets the job while workers of both wait.
static enum target given(struct job *one) {
  for (enum target target = 0; target < TARGETS; target++) start(target);
  assert_true(queue_push(&queue, one));
  bool on_cpu = atomic_load(&devices[TARGET_CPU].load) > 0;
  assert_int_equal(atomic_load(&devices[TARGET_GPU].load), !on_cpu);
  enum target target = on_cpu ? TARGET_CPU : TARGET_GPU, other = on_cpu ? TARGET_GPU : TARGET_CPU;
  assert_ptr_equal(join(target), one);
  assert_int_equal(placement.at_work[target], 1);
  one->result.device = &devices[target];
  one->result.answered = true;
  queue_done(&queue, &poppers[target].waiter, one);
  assert_int_equal(placement.at_work[target], 0);
  assert_int_equal(queue_call(&queue, 1), 1);
  assert_null(join(other));
  return target;
}

static struct job one, two;

static void the_queue_gives_a_job_to_its_target(void **state) {
  (void)state;
  assert_int_equal(given(make(&one, VX_FPS, 1)), TARGET_GPU);
  assert_int_equal(atomic_load(&placement.answered[TARGET_GPU]), 1);
  slow_down(TARGET_GPU, 10);
  assert_int_equal(given(make(&one, VX_FPS, 1)), TARGET_CPU);
  assert_int_equal(atomic_load(&placement.answered[TARGET_CPU]), 1);
  assert_int_equal(given(make(&one, VX_FPS, 2)), TARGET_GPU);
  assert_int_equal(given(make(&one, VX_NMS, 1)), TARGET_GPU);
  make(&one, VX_VOXELIZE, 1)->asked.job.params.voxelize.sampling.enabled = true;
  assert_int_equal(given(&one), TARGET_CPU);
  make(&one, VX_FPS, 1)->asked.stream.name[0] = 's';
  assert_int_equal(given(&one), TARGET_GPU);
  make(&one, VX_FPS, 1)->asked.points_region.name[0] = 'r';
  assert_int_equal(given(&one), TARGET_GPU);
  assert_int_equal(given(make(&one, VX_FPS, 0)), TARGET_GPU);  // 0: a file, whose number of points is unknown
}

static void without_a_gpu_that_works_every_worker_takes_every_job(void **state) {
  (void)state;
  slow_down(TARGET_CPU, 40);
  atomic_store(&gpus, 0);
  start(TARGET_CPU);
  assert_true(queue_push(&queue, make(&one, VX_FPS, 1)));
  assert_ptr_equal(join(TARGET_CPU), &one);
  queue_done(&queue, &poppers[TARGET_CPU].waiter, &one);
}

static void jobs_on_the_cpu_do_not_count_to_the_clients_limit(void **state) {
  (void)state;
  struct client *other = clients_acquire(&clients, "", "192.0.2.2");
  queue_tick(&queue, 1, clock_ns());
  recency_note(&queue.served, other, clock_ns());
  slow_down(TARGET_GPU, 10);
  start(TARGET_CPU);
  assert_true(queue_push(&queue, make(&one, VX_FPS, 1)));
  assert_ptr_equal(join(TARGET_CPU), &one);
  assert_int_equal(client->jobs[VX_LANE_LONG].running, 0);
  start(TARGET_GPU);
  assert_true(queue_push(&queue, make(&two, VX_FPS, 2)));
  assert_ptr_equal(join(TARGET_GPU), &two);
  assert_int_equal(client->jobs[VX_LANE_LONG].running, 1);
  queue_done(&queue, &poppers[TARGET_CPU].waiter, &one);
  assert_int_equal(client->jobs[VX_LANE_LONG].running, 1);
  queue_done(&queue, &poppers[TARGET_GPU].waiter, &two);
  assert_int_equal(client->jobs[VX_LANE_LONG].running, 0);
  assert_int_equal(queue.clients, 0);
  clients_release(&clients, other);
}

static void a_job_that_waits_for_a_gpu_keeps_no_other_from_the_cpu(void **state) {
  (void)state;
  struct client *other = clients_acquire(&clients, "", "192.0.2.2");
  slow_down(TARGET_GPU, 10);
  start(TARGET_CPU);
  assert_true(queue_push(&queue, make(&one, VX_FPS, 3)));
  assert_int_equal(atomic_load(&queue.depth), 1);
  make(&two, VX_FPS, 1)->client = other;
  assert_true(queue_push(&queue, &two));
  assert_ptr_equal(join(TARGET_CPU), &two);
  queue_done(&queue, &poppers[TARGET_CPU].waiter, &two);
  start(TARGET_CPU);
  start(TARGET_GPU);
  assert_ptr_equal(join(TARGET_GPU), &one);
  assert_true(queue_requeue(&queue, &poppers[TARGET_GPU].waiter, &one));
  assert_int_equal(atomic_load(&queue.depth), 1);
  queue_stop(&queue);
  assert_null(join(TARGET_CPU));
  assert_ptr_equal(queue_pop(&queue, &poppers[TARGET_CPU].waiter), &one);  // after queue_stop, any worker takes any job
  assert_int_equal(placement.waiting_ns, 0);
  clients_release(&clients, other);
}

static void jobs_that_are_taken_out_stop_counting(void **state) {
  (void)state;
  assert_true(queue_push(&queue, make(&one, VX_FPS, 1)) && queue_push(&queue, make(&two, VX_FPS, 1)));
  slow_down(TARGET_GPU, 10);  // after both jobs were queued
  assert_true(placement.waiting_ns > 0);
  assert_ptr_equal(queue_take(&queue, &(struct job_choice){.takes = NULL}), &one);
  assert_int_equal(placement.waiting_ns, 0);
}

static void a_job_that_ran_elsewhere_is_not_counted(void **state) {
  (void)state;
  start(TARGET_GPU);
  assert_true(queue_push(&queue, make(&one, VX_FPS, 1)));
  assert_ptr_equal(join(TARGET_GPU), &one);
  one.result.device = &devices[TARGET_CPU];
  one.result.answered = true;
  queue_done(&queue, &poppers[TARGET_GPU].waiter, &one);
  for (int target = 0; target < TARGETS; target++) assert_int_equal(placement.answered[target], 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(the_constants_give_what_was_measured, enter),
      cmocka_unit_test_setup(what_was_measured_at_the_start_scales_them, enter),
      cmocka_unit_test_setup(the_cpu_takes_no_other_jobs_and_none_that_is_large_or_long, enter),
      cmocka_unit_test_setup(the_faster_of_two_free_targets, enter),
      cmocka_unit_test_setup(a_job_waits_for_a_busy_gpu_that_ends_first, enter),
      cmocka_unit_test_setup(waiting_jobs_count, enter),
      cmocka_unit_test_setup(only_waiting_jobs_ahead_count, enter),
      cmocka_unit_test_setup(no_job_waits_for_a_busy_cpu, enter),
      cmocka_unit_test_setup(running_jobs_leave_no_room, enter),
      cmocka_unit_test_setup(jobs_on_the_cpu_leave_no_room, enter),
      cmocka_unit_test_setup(other_threads_leave_no_room, enter),
      cmocka_unit_test_setup_teardown(the_queue_gives_a_job_to_its_target, open_queue, close_queue),
      cmocka_unit_test_setup_teardown(without_a_gpu_that_works_every_worker_takes_every_job, open_queue, close_queue),
      cmocka_unit_test_setup_teardown(jobs_on_the_cpu_do_not_count_to_the_clients_limit, open_queue, close_queue),
      cmocka_unit_test_setup_teardown(a_job_that_waits_for_a_gpu_keeps_no_other_from_the_cpu, open_queue, close_queue),
      cmocka_unit_test_setup_teardown(jobs_that_are_taken_out_stop_counting, open_queue, close_queue),
      cmocka_unit_test_setup_teardown(a_job_that_ran_elsewhere_is_not_counted, open_queue, close_queue),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
