// Jobs with `latest`, with a moved clock. Both workers stay in the `done` of their jobs, so all other jobs wait.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "server/jobs/held.h"
#include "server/jobs/run.h"
#include "tests/support/held_worker.h"
#include "tests/support/job_room.h"
#include "tests/support/moved_clock.h"

enum { JOBS = 5, POINT_BYTES = 16 };

static struct options options = {
    .workers = 1, .long_workers = 1, .queue_depth = 64, .max_response_bytes = 1 << 20, .memory_budget_bytes = 16 << 20};
static struct job held[2], all[JOBS];  // the jobs that hold the workers; the jobs that wait
// A job of one point. `latest`: NULL = none.
static struct job *make(struct job *job, enum vx_op op, const char *latest) {
  struct error error;
  static const char range[] = "0,0,0,10,10,10", size[] = "1,1,1";
  job_init(job, &jobs.services);
  job->client = client;
  job->spec.gone = &gone;
  job->spec.done = on_done;
  job->spec.started_ns = job->queued_ns = clock_ns();
  job->deadline_ns = INT64_MAX;
  job_request_init(&job->asked, op);
  if (op == VX_FPS) {
    assert_true(job_request_set(&job->asked, "num_samples", 11, "1", 1, &error));
  } else {
    assert_true(job_request_set(&job->asked, "point_cloud_range", 17, range, strlen(range), &error));
    assert_true(job_request_set(&job->asked, "voxel_size", 10, size, strlen(size), &error));
  }
  if (latest) assert_true(job_request_set(&job->asked, "latest", 6, latest, strlen(latest), &error));
  assert_true(job_request_finish(&job->asked, &error));
  assert_true(job_request_split(&job->asked, 1, &error));
  assert_true(job_acquire_queue_slot(job));
  assert_true(job_acquire_rows(job, POINT_BYTES));
  job_use_rows(job);
  memset(job->held.input->data, 0, POINT_BYTES);
  return job;
}

static void submit(struct job *job) { assert_true(jobs_submit(&jobs, job)); }

static int64_t waiting(void) {
  return atomic_load(&jobs.queues[VX_LANE_QUICK].depth) + atomic_load(&jobs.queues[VX_LANE_LONG].depth);
}

static int open_room(void **state) {
  (void)state;
  open_job_room(&options);
  atomic_store(&finished, 0);
  atomic_store(&kept, 0);
  pthread_mutex_lock(&hold);
  for (int i = 0; i < 2; i++) {
    make(&held[i], i ? VX_FPS : VX_VOXELIZE, "a")->spec.done = on_done_held;
    submit(&held[i]);
  }
  while (atomic_load(&kept) < 2) sched_yield();
  return 0;
}

static bool has_slots(void) {
  const struct clients_use use = clients_use(&clients);
  return use.held[SHARE_JOBS] + use.held[SHARE_LONG_JOBS] > 0;
}

// A client may hold one of two slots. The jobs that hold the workers have released theirs.
static int open_small_room(void **state) {
  const int64_t depth = options.queue_depth;
  options.queue_depth = 2;
  int opened = open_room(state);
  options.queue_depth = depth;
  while (has_slots()) sched_yield();
  return opened;
}

static bool is_superseded(const struct job *job) { return job->result.error.kind == ERROR_SUPERSEDED; }

static int close_room(void **state) {
  (void)state;
  int64_t left = waiting() + 2 + atomic_load(&finished);
  pthread_mutex_unlock(&hold);
  while (atomic_load(&finished) < left) sched_yield();
  for (int i = 0; i < 2; i++) job_release_buffer(&held[i].held.output);
  for (int i = 0; i < JOBS; i++) job_release_buffer(&all[i].held.output);
  (void)close_job_room(NULL);
  for (int i = 0; i < 2; i++) pool_release(&held[i].asked.pool);
  for (int i = 0; i < JOBS; i++) pool_release(&all[i].asked.pool);
  memset(held, 0, sizeof held);
  memset(all, 0, sizeof all);
  return 0;
}

// ---- tests ----------------------------------------------------------------------------------------------------------

static void the_one_that_waits_is_told_how_long(void **state) {
  (void)state;
  submit(make(&all[0], VX_FPS, "a"));
  assert_false(is_superseded(&held[1]));  // a running job is not superseded
  clock_move_ms(130);
  submit(make(&all[1], VX_FPS, "a"));
  assert_true(is_superseded(&all[0]));
  assert_string_equal(all[0].result.error.text, "a newer request with the same latest came, after 130 ms");
  assert_int_equal(atomic_load(&finished), 1);
  assert_int_equal(all[0].held.queue_slot, SHARES);
  clock_move_ms(50);
  submit(make(&all[2], VX_FPS, "a"));
  assert_non_null(strstr(all[1].result.error.text, "after 50 ms"));
  assert_int_equal(waiting(), 1);
}

static void jobs_that_wait_for_other_lanes_are_superseded_too(void **state) {
  (void)state;
  submit(make(&all[0], VX_FPS, "a"));
  clock_move_ms(1);
  submit(make(&all[1], VX_VOXELIZE, "a"));
  assert_true(is_superseded(&all[0]));
  clock_move_ms(1);
  submit(make(&all[2], VX_FPS, "a"));
  assert_true(is_superseded(&all[1]) && !is_superseded(&all[2]));
  assert_int_equal(waiting(), 1);
}

// The gate and the threads may change the order of jobs.
static void an_older_one_that_comes_late_is_superseded_itself(void **state) {
  (void)state;
  make(&all[0], VX_FPS, "a");
  clock_move_ms(10);
  submit(make(&all[1], VX_VOXELIZE, "a"));
  submit(&all[0]);
  assert_true(is_superseded(&all[0]) && !is_superseded(&all[1]));
  assert_int_equal(waiting(), 1);
}

static void other_names_and_clients_are_left_alone(void **state) {
  (void)state;
  struct client *other = clients_acquire(&clients, "", "192.0.2.2"), *ours = client;
  submit(make(&all[0], VX_FPS, "b"));
  submit(make(&all[1], VX_FPS, NULL));
  client = other;
  submit(make(&all[2], VX_FPS, "a"));
  client = ours;
  clock_move_ms(1);
  submit(make(&all[3], VX_FPS, "a"));
  submit(make(&all[4], VX_FPS, NULL));
  for (int i = 0; i < JOBS; i++) assert_false(is_superseded(&all[i]));
  assert_int_equal(waiting(), JOBS);
  clients_release(&clients, other);
}

// A request with a complete body supersedes an older job when it needs the slot, before its own job is submitted.
static void the_slot_of_an_older_one_is_freed(void **state) {
  (void)state;
  struct job *newer = make(&all[1], VX_FPS, "a");
  assert_false(jobs.services.supersede(&jobs, newer));
  clock_move_ms(1);
  submit(make(&all[0], VX_FPS, "a"));
  clock_move_ms(1);
  newer->queued_ns = 0;  // jobs_submit sets it later
  assert_true(jobs.services.supersede(&jobs, newer));
  assert_true(is_superseded(&all[0]));
  assert_false(jobs.services.supersede(&jobs, newer));
  job_release_queue_slot(newer);
  job_release_buffer(&newer->held.input);
}

// If a job's lanes depend on its body, the job acquires its slot after the body has come. Here `make` acquires the
// slot.
static void the_slot_of_an_older_one_is_freed_in_other_lanes(void **state) {
  (void)state;
  submit(make(&all[0], VX_FPS, "a"));
  clock_move_ms(1);
  assert_int_equal(share_acquire(&clients, client, SHARE_LONG_JOBS, 1, 0), OVER_CLIENT_SHARE);
  make(&all[1], VX_FPS, "a");
  assert_true(is_superseded(&all[0]));
  assert_int_equal(all[1].result.error.kind, ERROR_NONE);
  submit(&all[1]);
  assert_int_equal(waiting(), 1);
}

static struct job *taken_meanwhile;

static bool find_none(struct jobs *owner, const struct job *job) {
  (void)owner, (void)job;
  job_release_queue_slot(taken_meanwhile);
  return false;
}

// The newer job finds no slot. Before it looks for a job to supersede, a worker takes the older job, whose slot is then
// free.
static void a_slot_that_a_worker_releases_meanwhile_is_had(void **state) {
  (void)state;
  taken_meanwhile = make(&all[0], VX_FPS, "a");
  jobs.services.supersede = find_none;
  clock_move_ms(1);
  make(&all[1], VX_FPS, "a");
  assert_int_equal(all[1].held.queue_slot, SHARE_LONG_JOBS);
  assert_int_equal(all[1].result.error.kind, ERROR_NONE);
  submit(&all[1]);
  submit(&all[0]);
}

static void one_without_a_slot_is_superseded_if_a_newer_one_waits(void **state) {
  (void)state;
  make(&all[0], VX_FPS, "a");
  job_release_queue_slot(&all[0]);
  clock_move_ms(10);
  submit(make(&all[1], VX_FPS, "a"));
  submit(&all[0]);
  assert_true(is_superseded(&all[0]) && !is_superseded(&all[1]));
}

static void one_without_a_slot_is_refused_if_others_have_all(void **state) {
  (void)state;
  make(&all[0], VX_FPS, "a");
  job_release_queue_slot(&all[0]);
  submit(make(&all[1], VX_FPS, "b"));
  assert_false(jobs_submit(&jobs, &all[0]));
  assert_int_equal(all[0].result.error.kind, ERROR_CLIENT_OVER_SHARE);
  job_release(&all[0]);
}

// A job releases its slot when the queue gives it to a worker, even if the worker wakes late.
static void a_job_has_no_slot_once_a_worker_shall_take_it(void **state) {
  (void)state;
  struct queue queue;
  struct queue_waiter waiter;
  atomic_llong load = 0;
  queue_init(&queue, VX_LANE_LONG);
  queue_waiter_init(&waiter, QUEUE_CPU, &load);
  assert_true(queue_push(&queue, make(&all[0], VX_FPS, "a")));
  assert_int_equal(all[0].held.queue_slot, SHARE_LONG_JOBS);
  assert_ptr_equal(queue_pop(&queue, &waiter), &all[0]);
  assert_int_equal(all[0].held.queue_slot, SHARES);
  queue_done(&queue, &waiter, &all[0]);
  queue_waiter_end(&waiter);
  queue_end(&queue);
  job_release(&all[0]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(the_one_that_waits_is_told_how_long, open_room, close_room),
      cmocka_unit_test_setup_teardown(jobs_that_wait_for_other_lanes_are_superseded_too, open_room, close_room),
      cmocka_unit_test_setup_teardown(an_older_one_that_comes_late_is_superseded_itself, open_room, close_room),
      cmocka_unit_test_setup_teardown(other_names_and_clients_are_left_alone, open_room, close_room),
      cmocka_unit_test_setup_teardown(the_slot_of_an_older_one_is_freed, open_room, close_room),
      cmocka_unit_test_setup_teardown(the_slot_of_an_older_one_is_freed_in_other_lanes, open_small_room, close_room),
      cmocka_unit_test_setup_teardown(a_slot_that_a_worker_releases_meanwhile_is_had, open_small_room, close_room),
      cmocka_unit_test_setup_teardown(one_without_a_slot_is_superseded_if_a_newer_one_waits, open_small_room,
                                      close_room),
      cmocka_unit_test_setup_teardown(one_without_a_slot_is_refused_if_others_have_all, open_small_room, close_room),
      cmocka_unit_test_setup_teardown(a_job_has_no_slot_once_a_worker_shall_take_it, open_room, close_room),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
