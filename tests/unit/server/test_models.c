// Counts by model: one set for each name, even if threads race to add it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>

#include "server/base/counters.h"

static struct models models;
static struct vx_job job;

static int forget(void **state) {
  (void)state;
  models_release(&models);
  return 0;
}

static void a_model_that_was_not_asked_has_no_counts(void **state) {
  (void)state;
  assert_null(models_find(&models, "fps"));
  models_count(&models, "fps", NULL, 5);
  assert_null(models_find(&models, "fp"));
  assert_non_null(models_find(&models, "fps"));
}

static void times_go_to_their_parts(void **state) {
  (void)state;
  job = (struct vx_job){.op = VX_VOXELIZE};
  for (int stage = 0; stage < VX_STAGE_COUNT; stage++) job.stage_ns[stage] = 1 << stage;
  struct answer answer = {.job = &job, .receive_ns = 5000, .queue_ns = 700, .encode_ns = 3000, .total_ns = 9000};
  models_count(&models, "a", &answer, 10000);
  models_count(&models, "a", &answer, 10000);
  models_count(&models, "a", NULL, 600);
  const struct model_counts *counts = models_find(&models, "a");
  assert_int_equal(counter_value(&counts->succeeded), 2);
  assert_int_equal(counter_value(&counts->succeeded_ns), 20000);
  assert_int_equal(counter_value(&counts->failed), 1);
  assert_int_equal(counter_value(&counts->failed_ns), 600);
  assert_int_equal(counter_value(&counts->part_ns[MODEL_QUEUE]), 1400);
  assert_int_equal(counter_value(&counts->part_ns[MODEL_COMPUTE_INPUT]), 2 << VX_STAGE_COPY_IN);
  // The other stages that count for VX_VOXELIZE.
  assert_int_equal(counter_value(&counts->part_ns[MODEL_COMPUTE_INFER]),
                   (2 << VX_STAGE_VOXELIZE) + (2 << VX_STAGE_FEATURES) + (2 << VX_STAGE_SCATTER) +
                       (2 << VX_STAGE_SAMPLE));
  assert_int_equal(counter_value(&counts->part_ns[MODEL_COMPUTE_OUTPUT]), (2 << VX_STAGE_COPY_OUT) + 6000);
  assert_true(counter_value(&counts->last_unix_ms) > 0);
}

enum { THREADS = 4, NAMES = 50, ROUNDS = 40 };

static void *count_all(void *cls) {
  (void)cls;
  char name[16];
  for (int i = 0; i < ROUNDS * NAMES; i++) {
    snprintf(name, sizeof name, "m%d", i % NAMES);
    models_count(&models, name, NULL, 1);
  }
  return NULL;
}

static void threads_share_the_counts(void **state) {
  (void)state;
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, count_all, NULL), 0);
  for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
  int names = 0;
  for (const struct model_counts *counts = atomic_load(&models.first); counts; counts = counts->next, names++)
    assert_int_equal(counter_value(&counts->failed), THREADS * ROUNDS);
  assert_int_equal(names, NAMES);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(a_model_that_was_not_asked_has_no_counts, forget),
      cmocka_unit_test_teardown(times_go_to_their_parts, forget),
      cmocka_unit_test_teardown(threads_share_the_counts, forget),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
