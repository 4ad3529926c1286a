// The states of GPUs.
#include "server/jobs/devices.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "server/base/base.h"
#include "tests/support/logged.h"

static struct devices devices;
static struct device *const gpu = &devices.gpu[0];
static int64_t now_ns;
static bool trial;

static int enter(void **state) {
  (void)state;
  memset(&devices, 0, sizeof devices);
  lock_init(&devices.lock);
  devices.count = 2;
  atomic_store(&devices.working, 2);
  now_ns = 1000 * NS_PER_S;
  return 0;
}

static int leave(void **state) {
  (void)state;
  lock_end(&devices.lock);
  return 0;
}

static bool take(void) { return device_take(&devices, gpu, now_ns, &trial); }
static bool tell(enum device_outcome outcome) {
  return device_tell(&devices, gpu, trial, outcome, "no memory", now_ns);
}

static void fail_thrice(void) {
  for (int i = 0; i < 3; i++) {
    assert_true(take());
    assert_int_equal(tell(DEVICE_FAILED), i == 2);
  }
}

static void assert_states(int working, int paused, int lost) {
  assert_int_equal(devices_in(&devices, DEVICE_WORKING), working);
  assert_int_equal(devices_in(&devices, DEVICE_PAUSED), paused);
  assert_int_equal(devices_in(&devices, DEVICE_LOST), lost);
  assert_int_equal(atomic_load(&devices.working), working);
}

static void three_failures_in_a_row_pause_it(void **state) {
  (void)state;
  fail_thrice();
  assert_states(1, 1, 0);
  assert_int_equal(atomic_load(&gpu->load), -1);
  assert_false(take());
  assert_false(device_is_open(&devices, gpu, now_ns));
  assert_ptr_equal(devices_main(&devices), &devices.gpu[1]);
  struct device_health health = device_health(&devices, gpu, now_ns + NS_PER_MS);
  assert_int_equal(health.state, DEVICE_PAUSED);
  assert_string_equal(health.reason, "no memory");
  assert_int_equal(health.paused_ns, NS_PER_MS);
  assert_int_equal(health.retry_ns, NS_PER_S - NS_PER_MS);
}

static void its_pause_and_its_return_are_logged(void **state) {
  (void)state;
  assert_true(logged_begin());
  assert_true(take());
  (void)tell(DEVICE_FAILED);
  assert_string_equal(logged(), "");
  for (int i = 0; i < 2; i++) {
    assert_true(take());
    (void)tell(DEVICE_FAILED);
  }
  const char *line = logged();
  assert_non_null(strstr(line, "a GPU is paused"));
  assert_non_null(strstr(line, "error=\"no memory\""));
  now_ns += 2 * NS_PER_S;
  assert_true(take());
  (void)tell(DEVICE_DID);
  assert_non_null(strstr(logged(), "a GPU works again"));
  assert_true(logged_end());
}

static void failures_with_a_success_between_do_not_pause_it(void **state) {
  (void)state;
  for (int i = 0; i < 12; i++) {
    assert_true(take());
    assert_false(tell(i % 3 == 2 ? DEVICE_DID : DEVICE_FAILED));
  }
  assert_states(2, 0, 0);
}

static void what_is_undecided_counts_as_nothing(void **state) {
  (void)state;
  for (int i = 0; i < 9; i++) {
    assert_true(take());
    assert_false(tell(DEVICE_UNDECIDED));
  }
  assert_states(2, 0, 0);
}

static void one_job_tries_it_after_a_pause_that_grows(void **state) {
  (void)state;
  static const int seconds[] = {1, 2, 4, 8, 16, 32, 60, 60};
  fail_thrice();
  for (size_t i = 0; i < sizeof seconds / sizeof *seconds; i++) {
    now_ns += seconds[i] * NS_PER_S - 1;
    assert_false(take());
    now_ns++;
    assert_true(device_is_open(&devices, gpu, now_ns));
    assert_true(take());
    assert_true(trial);
    assert_false(device_is_open(&devices, gpu, now_ns));
    bool second;
    assert_false(device_take(&devices, gpu, now_ns, &second));
    assert_false(tell(DEVICE_FAILED));
  }
  assert_states(1, 1, 0);
  now_ns += 60 * NS_PER_S;
  assert_true(take());
  assert_true(tell(DEVICE_DID));
  assert_states(2, 0, 0);
  assert_int_equal(atomic_load(&gpu->load), 0);
  fail_thrice();  // a success has reset the count of failures
  now_ns += NS_PER_S;
  assert_true(take());
}

static void an_undecided_trial_is_made_again(void **state) {
  (void)state;
  fail_thrice();
  now_ns += NS_PER_S;
  for (int i = 0; i < 3; i++) {
    assert_true(take());
    assert_false(tell(DEVICE_UNDECIDED));
  }
  assert_states(1, 1, 0);
}

static void jobs_from_before_the_pause_change_nothing(void **state) {
  (void)state;
  fail_thrice();
  trial = false;
  for (int i = 0; i < 5; i++) assert_false(tell(i % 2 ? DEVICE_DID : DEVICE_FAILED));
  assert_states(1, 1, 0);
  now_ns += NS_PER_S;
  assert_true(take());
}

static void a_lost_one_stays_lost(void **state) {
  (void)state;
  fail_thrice();
  now_ns += NS_PER_S;
  assert_true(take());
  assert_true(device_mark_lost(&devices, gpu, "dead"));
  assert_false(device_mark_lost(&devices, gpu, "dead again"));
  assert_false(tell(DEVICE_FAILED));
  assert_states(1, 0, 1);
  now_ns += 100 * NS_PER_S;
  assert_false(take());
  assert_string_equal(device_health(&devices, gpu, now_ns).reason, "dead");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(three_failures_in_a_row_pause_it, enter, leave),
      cmocka_unit_test_setup_teardown(its_pause_and_its_return_are_logged, enter, leave),
      cmocka_unit_test_setup_teardown(failures_with_a_success_between_do_not_pause_it, enter, leave),
      cmocka_unit_test_setup_teardown(what_is_undecided_counts_as_nothing, enter, leave),
      cmocka_unit_test_setup_teardown(one_job_tries_it_after_a_pause_that_grows, enter, leave),
      cmocka_unit_test_setup_teardown(an_undecided_trial_is_made_again, enter, leave),
      cmocka_unit_test_setup_teardown(jobs_from_before_the_pause_change_nothing, enter, leave),
      cmocka_unit_test_setup_teardown(a_lost_one_stays_lost, enter, leave),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
