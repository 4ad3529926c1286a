// Jobs with max_age_ms, with a moved clock. A job whose points are too old when a worker opens the job is not computed.
// The worker stays in the `done` of another job while the clock moves.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "api/wire/warnings.h"
#include "server/jobs/held.h"
#include "tests/support/held_worker.h"
#include "tests/support/job_room.h"
#include "tests/support/moved_clock.h"

enum { POINT_BYTES = 16 };

static struct options options = {
    .workers = 1, .long_workers = 1, .queue_depth = 64, .max_response_bytes = 1 << 20, .memory_budget_bytes = 16 << 20};
static struct job before, waits;
static void set(struct job *job, const char *name, const char *value) {
  struct error error;
  assert_true(job_request_set(&job->asked, name, strlen(name), value, strlen(value), &error));
}

// A job of one point, measured `ahead_ms` after now. `most_ms`: max_age_ms; NULL = none.
static struct job *make(struct job *job, const char *most_ms, int ahead_ms) {
  struct error error;
  char time[32];
  job_init(job, &jobs.services);
  job->client = client;
  job->spec.gone = &gone;
  job->spec.done = on_done;
  job->spec.started_ns = job->queued_ns = clock_ns();
  job->deadline_ns = INT64_MAX;
  job_request_init(&job->asked, VX_FPS);
  set(job, "num_samples", "1");
  (void)!snprintf(time, sizeof time, "%.3f", (double)clock_wall_ns() / 1e9 + ahead_ms / 1e3);
  if (most_ms) set(job, "time", time);
  if (most_ms) set(job, "max_age_ms", most_ms);
  assert_true(job_request_finish(&job->asked, &error));
  assert_true(job_request_split(&job->asked, 1, &error));
  assert_true(job_acquire_queue_slot(job));
  assert_true(job_acquire_rows(job, POINT_BYTES));
  job_use_rows(job);
  memset(job->held.input->data, 0, POINT_BYTES);
  return job;
}

// The result of a job that waits `waits_ms` before the worker opens it.
static const struct job_result *ask(const char *most_ms, int ahead_ms, int waits_ms) {
  atomic_store(&finished, 0);
  pthread_mutex_lock(&hold);
  make(&before, NULL, 0)->spec.done = on_done_held;
  assert_true(jobs_submit(&jobs, &before));
  while (atomic_load(&jobs.queues[VX_LANE_LONG].depth) > 0) sched_yield();
  assert_true(jobs_submit(&jobs, make(&waits, most_ms, ahead_ms)));
  clock_move_ms(waits_ms);
  pthread_mutex_unlock(&hold);
  while (atomic_load(&finished) < 2) sched_yield();
  for (struct job *job = &before; job; job = job == &before ? &waits : NULL) {
    job_release_buffer(&job->held.output);
    pool_release(&job->asked.pool);
  }
  return &waits.result;
}

static int open_room(void **state) {
  (void)state;
  open_job_room(&options);
  return 0;
}

// ---- tests ----------------------------------------------------------------------------------------------------------

static void waiting_counts(void **state) {
  (void)state;
  const struct job_result *result = ask("100", -60, 50);
  assert_false(result->answered);
  assert_int_equal(result->error.kind, ERROR_TOO_OLD);
  assert_string_equal(result->error.parameter, "max_age_ms");
  assert_string_equal(result->error.text, "the points are 110 ms old; max_age_ms is 100");
  assert_false(result->begun);
}

static void the_limit_itself_is_allowed(void **state) {
  (void)state;
  assert_true(ask("100", -60, 40)->answered);
  assert_true(ask("100", 0, 99)->answered);
  assert_true(ask(NULL, 0, 1000)->answered);
}

static uint32_t warnings(const struct job_result *result) {
  assert_true(result->answered);
  return warnings_of(&waits.work, &result->answer.inspected) >> WARNING_CLOCK_AHEAD & 1;
}

// The sensor's clock is ahead: the age is 0. If the clock is far ahead, the answer warns.
static void a_clock_that_is_ahead(void **state) {
  (void)state;
  assert_false(warnings(ask("1", 90, 0)));
  assert_true(warnings(ask("1", 150, 0)));
  assert_false(warnings(ask("1", 150, 60)));
  assert_false(warnings(ask(NULL, 0, 0)));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(waiting_counts, open_room, close_job_room),
      cmocka_unit_test_setup_teardown(the_limit_itself_is_allowed, open_room, close_job_room),
      cmocka_unit_test_setup_teardown(a_clock_that_is_ahead, open_room, close_job_room),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
