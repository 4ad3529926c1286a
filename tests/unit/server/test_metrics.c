// Counters on the page /metrics.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "server/base/base.h"
#include "server/pages/pages.h"
#include "tests/support/rooms.h"

static char page[1 << 18];

static int reset(void **state) {
  (void)state;
  service.counters = (struct counters){.samples = 0};
  return 0;
}

static void write_page(void) {
  struct text text = text_over(page, sizeof page);
  metrics_write(&service, &text);
  assert_true(text_complete(&text));
}

static void has(const char *line) {
  char whole[256];
  snprintf(whole, sizeof whole, "\n%s\n", line);
  if (!strstr(page, whole)) fail_msg("the page has no line '%s'", line);
}

// ---- tests ----------------------------------------------------------------------------------------------------------

static void a_histogram_has_buckets_sum_and_count(void **state) {
  (void)state;
#define OF "{endpoint=\"/v1/voxelize\""
  counters_request(&service.counters, ENDPOINT_VOXELIZE, ERROR_NONE,
                   10 * NS_PER_MS);  // counts in the bucket of this bound
  counters_request(&service.counters, ENDPOINT_VOXELIZE, ERROR_NONE, 1500 * NS_PER_MS);
  counters_request(&service.counters, ENDPOINT_VOXELIZE, ERROR_NONE, 60 * NS_PER_S);
  write_page();
  has("voxeld_request_duration_seconds_bucket" OF ",le=\"0.005\"} 0");
  has("voxeld_request_duration_seconds_bucket" OF ",le=\"0.01\"} 1");
  has("voxeld_request_duration_seconds_bucket" OF ",le=\"1\"} 1");
  has("voxeld_request_duration_seconds_bucket" OF ",le=\"2.5\"} 2");
  has("voxeld_request_duration_seconds_bucket" OF ",le=\"30\"} 2");
  has("voxeld_request_duration_seconds_bucket" OF ",le=\"+Inf\"} 3");
  has("voxeld_request_duration_seconds_sum" OF "} 61.51");
  has("voxeld_request_duration_seconds_count" OF "} 3");
  has("voxeld_request_duration_seconds_count{endpoint=\"/v1/fps\"} 0");
}

static void the_time_to_send_is_a_stage(void **state) {
  (void)state;
  counters_transfer(&service.counters, 0, 0, 2500000);
  write_page();
  has("voxeld_stage_duration_seconds_sum{stage=\"send\"} 0.0025");
  has("voxeld_stage_duration_seconds_count{stage=\"send\"} 1");
  has("voxeld_stage_duration_seconds_count{stage=\"total\"} 0");
}

static void bytes_are_counted_each_way(void **state) {
  (void)state;
  counters_transfer(&service.counters, 1600, 24, -1);
  counters_transfer(&service.counters, 16, 2400, -1);
  write_page();
  has("voxeld_received_bytes_total 1616");
  has("voxeld_sent_bytes_total 2424");
}

static void a_job_is_counted_by_what_became_of_it(void **state) {
  (void)state;
  const struct vx_counts counts = {.received = 28,
                                   .kept = 1,
                                   .not_finite = 2,
                                   .out_of_range = 3,
                                   .over_voxel_cap = 4,
                                   .over_max_voxels = 5,
                                   .block_filtered = 13,
                                   .voxels_kept = 7,
                                   .voxels_dropped = 8,
                                   .voxels_block_filtered = 9,
                                   .sampled = 10};
  const struct vx_job job = {.op = VX_VOXELIZE, .counts = counts, .stage_ns = {[VX_STAGE_VOXELIZE] = 2500000}};
  const struct answer answer = {.job = &job, .queue_ns = 1500000};
  counters_job(&service.counters, &counts, &answer);
  write_page();
  has("voxeld_points_total{fate=\"kept\"} 1");
  has("voxeld_points_total{fate=\"not_finite\"} 2");
  has("voxeld_points_total{fate=\"out_of_range\"} 3");
  has("voxeld_points_total{fate=\"over_max_points_per_voxel\"} 4");
  has("voxeld_points_total{fate=\"over_max_voxels\"} 5");
  has("voxeld_points_total{fate=\"block_filtered\"} 13");
  has("voxeld_voxels_total{fate=\"kept\"} 7");
  has("voxeld_voxels_total{fate=\"dropped\"} 8");
  has("voxeld_voxels_total{fate=\"block_filtered\"} 9");
  has("voxeld_samples_total 10");
  has("voxeld_stage_duration_seconds_sum{stage=\"queue\"} 0.0015");
  has("voxeld_stage_duration_seconds_sum{stage=\"voxelize\"} 0.0025");
  has("voxeld_stage_duration_seconds_count{stage=\"total\"} 1");
}

static void codes_of_the_library_or_other(void **state) {
  (void)state;
  static const int statuses[] = {400, 413, 414, 431, 505, 501, 599, 200};
  for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++) counters_unparsed(&service.counters, statuses[i]);
  write_page();
  for (int i = 0; i < 5; i++) {
    char line[128];
    snprintf(line, sizeof line, "voxeld_requests_unparsed_total{code=\"%d\"} 1", statuses[i]);
    has(line);
  }
  has("voxeld_requests_unparsed_total{code=\"other\"} 3");
}

static void answers_of_one_status_are_one_sample(void **state) {
  (void)state;
  counters_request(&service.counters, ENDPOINT_FPS, ERROR_BAD_BODY, 1);
  counters_request(&service.counters, ENDPOINT_FPS, ERROR_BAD_PARAMETER, 1);
  counters_request(&service.counters, ENDPOINT_FPS, ERROR_NONE, 1);
  write_page();
  has("voxeld_requests_total{endpoint=\"/v1/fps\",code=\"400\"} 2");
  has("voxeld_requests_total{endpoint=\"/v1/fps\",code=\"200\"} 1");
  has("voxeld_refusals_total{reason=\"bad-body\"} 1");
  has("voxeld_refusals_total{reason=\"bad-parameter\"} 1");
  has("voxeld_refusals_total{reason=\"queue-full\"} 0");
}

static void aborts_by_stage(void **state) {
  (void)state;
  for (int i = 0; i < ABORT_STAGES; i++)
    for (int n = 0; n <= i; n++) counters_abort(&service.counters, (enum abort_stage)i);
  write_page();
  has("voxeld_requests_aborted_total{stage=\"upload\"} 1");
  has("voxeld_requests_aborted_total{stage=\"queue\"} 2");
  has("voxeld_requests_aborted_total{stage=\"run\"} 3");
  has("voxeld_requests_aborted_total{stage=\"send\"} 4");
  struct outcomes outcomes = counters_outcomes(&service.counters);
  assert_true(outcomes.aborted == 10 && outcomes.answered == 0 && outcomes.refused == 0);
}

static void what_the_rooms_hold(void **state) {
  (void)state;
  struct client *client = clients_acquire(&service.clients, "", "192.0.2.1");
  assert_int_equal(share_acquire(&service.clients, client, SHARE_LONG_JOBS, 3, 0), GRANTED);
  write_page();
  has("voxeld_ready 1");
  has("voxeld_clients 1");
  has("voxeld_queue_slots{lanes=\"quick\"} 0");
  has("voxeld_queue_slots{lanes=\"long\"} 3");
  has("voxeld_queue_limit 64");
  has("voxeld_workers{lanes=\"quick\"} 2");
  has("voxeld_workers{lanes=\"long\"} 1");
  has("voxeld_connections_limit 100");
  has("voxeld_page_connections 0");
  has("voxeld_page_connections_limit 0");
  has("voxeld_buffer_budget_bytes 16777216");
  has("process_start_time_seconds 1700000000");
  share_release(&service.clients, client, SHARE_LONG_JOBS, 3);
  clients_release(&service.clients, client);
  atomic_store(&service.phase, PHASE_DRAINING);
  write_page();
  has("voxeld_ready 0");
  has("voxeld_clients 0");
}

static double seconds_used(void) {
  struct rusage usage;
  assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
  return (double)usage.ru_utime.tv_sec + (double)usage.ru_utime.tv_usec / 1e6 + (double)usage.ru_stime.tv_sec +
         (double)usage.ru_stime.tv_usec / 1e6;
}

static void the_processors_time_is_that_of_the_process(void **state) {
  (void)state;
  while (seconds_used() < 0.02) write_page();
  double before = seconds_used();
  write_page();
  static const char name[] = "\nprocess_cpu_seconds_total ";
  const char *line = strstr(page, name);
  assert_non_null(line);
  double told = strtod(line + strlen(name), NULL);
  assert_true(told > before - 0.001 && told < seconds_used() + 0.001);  // the page rounds the time
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(a_histogram_has_buckets_sum_and_count, reset),
      cmocka_unit_test_setup(the_time_to_send_is_a_stage, reset),
      cmocka_unit_test_setup(bytes_are_counted_each_way, reset),
      cmocka_unit_test_setup(a_job_is_counted_by_what_became_of_it, reset),
      cmocka_unit_test_setup(codes_of_the_library_or_other, reset),
      cmocka_unit_test_setup(answers_of_one_status_are_one_sample, reset),
      cmocka_unit_test_setup(aborts_by_stage, reset),
      cmocka_unit_test_setup(what_the_rooms_hold, reset),
      cmocka_unit_test_setup(the_processors_time_is_that_of_the_process, reset),
  };
  return cmocka_run_group_tests(tests, open_rooms, close_rooms);
}
