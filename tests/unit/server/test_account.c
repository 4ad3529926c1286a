// The counts, the log line and the memory of a finished request.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/base/log.h"
#include "server/http/http.h"
#include "server/http/request.h"
#include "tests/support/logged.h"
#include "tests/support/moved_clock.h"

static struct service service = {.options = {.access_log = ACCESS_LOG_ALL}};
static struct peer peer = {.address = "192.0.2.1"};
static struct request request;

// Received in 1 ms, waited 2 ms, ran 7 ms, sent for 5 ms.
static int open_request(void **state) {
  (void)state;
  service.counters = (struct counters){.samples = 0};
  atomic_store(&peer.gone, false);
  atomic_store(&peer.upload.bytes, 1600);
  request = (struct request){.service = &service,
                             .peer = &peer,
                             .endpoint = ENDPOINT_VOXELIZE,
                             .id = "r1",
                             .method = "POST",
                             .path = "/v1/voxelize",
                             .address = "192.0.2.1",
                             .sent_bytes = 2400,
                             .error = {.kind = ERROR_NONE}};
  request.job.result.answered = true;
  request.job.result.answer.backend = "cpu";
  request.job.result.answer.receive_ns = 1 * NS_PER_MS;
  request.job.result.answer.queue_ns = 2 * NS_PER_MS;
  request.job.result.answer.total_ns = 10 * NS_PER_MS;
  trace_begin(&request.trace, NULL);
  request.started_ns = clock_ns();
  clock_move_ms(10);
  request.reply_ns = clock_ns();
  clock_move_ms(5);
  log_configure(LOG_INFO, LOG_LOGFMT);
  return logged_begin() ? 0 : -1;
}

static int close_request(void **state) {
  (void)state;
  return logged_end() ? 0 : -1;
}

static unsigned long long observations(const struct histogram *histogram) {
  unsigned long long sum = 0;
  for (int i = 0; i <= HISTOGRAM_BUCKETS; i++) sum += counter_value(&histogram->bucket[i]);
  return sum;
}

static void says(const char *line, const char *part) {
  if (!strstr(line, part)) fail_msg("no '%s' in %s", part, line);
}

static void an_answer_is_counted_with_its_times(void **state) {
  (void)state;
  request_account(&request, false);
  assert_int_equal(counter_value(&service.counters.requests[ENDPOINT_VOXELIZE][ERROR_NONE]), 1);
  assert_int_equal(counter_value(&service.counters.durations[ENDPOINT_VOXELIZE].sum_ns), 15 * NS_PER_MS);
  assert_int_equal(observations(&service.counters.stages[STAGE_SEND]), 1);
  assert_int_equal(counter_value(&service.counters.stages[STAGE_SEND].sum_ns), 5 * NS_PER_MS);
  assert_int_equal(counter_value(&service.counters.received_bytes), 1600);
  assert_int_equal(counter_value(&service.counters.sent_bytes), 2400);
  assert_int_equal(counters_outcomes(&service.counters).aborted, 0);
  const char *line = logged();
  says(line, " level=info msg=request id=r1 client=192.0.2.1 method=POST endpoint=/v1/voxelize status=200 "
             "received_bytes=1600 sent_bytes=2400 ms=15.000 backend=cpu "
             "receive_ms=1.000 queue_ms=2.000 run_ms=7.000 send_ms=5.000 trace_id=");
}

static void a_page_that_the_client_has_is_counted_as_304(void **state) {
  (void)state;
  request.job.result.answered = false;
  request.endpoint = ENDPOINT_VIEWER;
  request.unchanged = true;
  request_account(&request, false);
  assert_int_equal(counter_value(&service.counters.unchanged[ENDPOINT_VIEWER]), 1);
  assert_int_equal(counter_value(&service.counters.requests[ENDPOINT_VIEWER][ERROR_NONE]), 0);
  assert_int_equal(observations(&service.counters.durations[ENDPOINT_VIEWER]), 1);
  assert_int_equal(counters_outcomes(&service.counters).answered, 1);
  says(logged(), " endpoint=/ path=/v1/voxelize status=304 ");
}

static void an_answer_that_was_not_taken_is_not_counted_as_sent(void **state) {
  (void)state;
  request_account(&request, true);
  assert_int_equal(counter_value(&service.counters.aborted[ABORT_SEND]), 1);
  assert_int_equal(observations(&service.counters.stages[STAGE_SEND]), 0);
  assert_int_equal(observations(&service.counters.durations[ENDPOINT_VOXELIZE]), 0);
  assert_int_equal(counters_of_outcome(&service.counters, ERROR_NONE), 0);
  assert_int_equal(counter_value(&service.counters.sent_bytes), 2400);
  const char *line = logged();
  says(line, " aborted=send received_bytes=1600 ");
  assert_null(strstr(line, " status="));
}

static void the_stage_of_an_abort(void **state) {
  (void)state;
  request.job.result.answered = false;
  request.reply_ns = 0;
  request_account(&request, true);
  request.reply_ns = clock_ns();
  request.error.kind = ERROR_DEADLINE;
  request_account(&request, true);  // the client is connected, but the answer could not be sent
  atomic_store(&peer.gone, true);
  request_account(&request, true);
  request.job.result.begun = true;
  request_account(&request, true);
  static const enum abort_stage stages[] = {ABORT_UPLOAD, ABORT_SEND, ABORT_QUEUE, ABORT_RUN};
  const char *line = logged();
  for (int i = 0; i < ABORT_STAGES; i++) {
    char part[64];
    assert_int_equal(counter_value(&service.counters.aborted[i]), 1);
    snprintf(part, sizeof part, " aborted=%s ", abort_name(stages[i]));
    says(line, part);
    line = strstr(line, part) + 1;
  }
}

static void the_level_tells_whose_fault_it_is(void **state) {
  (void)state;
  static const struct {
    enum error_kind kind;
    bool aborted;
    const char *level;
  } cases[] = {{ERROR_NONE, false, " level=info "},      {ERROR_BAD_BODY, false, " level=info "},
               {ERROR_DEFECT, false, " level=error "},   {ERROR_QUEUE_FULL, false, " level=warning "},
               {ERROR_QUEUE_FULL, true, " level=info "}, {ERROR_DEFECT, true, " level=info "}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    request.error.kind = cases[i].kind;
    request_account(&request, cases[i].aborted);
    says(logged(), cases[i].level);
  }
}

static void a_refusal_is_logged_with_its_reason(void **state) {
  (void)state;
  static const struct {
    enum error_kind kind;
    const char *part;
  } cases[] = {
      {ERROR_BAD_BODY, " level=info "}, {ERROR_QUEUE_FULL, " level=warning "}, {ERROR_DEFECT, " level=error "}};
  request.job.result.answered = false;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    (void)error_refuse(&request.error, cases[i].kind, NULL, "two words");
    request_account(&request, false);
    const char *line = logged();
    says(line, cases[i].part);
    says(line, " detail=\"two words\" ");
    says(line, problem_info(cases[i].kind)->name);
    assert_null(strstr(line, "run_ms"));
    assert_int_equal(counters_of_outcome(&service.counters, cases[i].kind), 1);
  }
  assert_int_equal(observations(&service.counters.stages[STAGE_SEND]), 0);
}

// An idle connection must not keep a large pool.
static void a_connection_keeps_little_memory_between_requests(void **state) {
  (void)state;
  static struct peer resting;
  const size_t parts[] = {POOL_KEPT, POOL_KEPT + 1};
  service.jobs.services.regions = &service.jobs.regions;
  for (int i = 0; i < 2; i++) {
    struct request *begun = request_begin(&service, NULL, &resting);
    assert_non_null(begun);
    assert_non_null(pool_take(&begun->job.asked.pool, parts[i]));
    request_end(begun);
    assert_int_equal(begun->job.asked.pool.blocks != NULL, parts[i] <= POOL_KEPT);
    pool_release(&begun->job.asked.pool);
  }
  assert_int_equal(atomic_load(&service.requests.open), 0);
  free(resting.request);
}

#define ACCOUNTED(test) cmocka_unit_test_setup_teardown(test, open_request, close_request)

int main(void) {
  const struct CMUnitTest tests[] = {
      ACCOUNTED(an_answer_is_counted_with_its_times),
      ACCOUNTED(a_page_that_the_client_has_is_counted_as_304),
      ACCOUNTED(an_answer_that_was_not_taken_is_not_counted_as_sent),
      ACCOUNTED(the_stage_of_an_abort),
      ACCOUNTED(the_level_tells_whose_fault_it_is),
      ACCOUNTED(a_refusal_is_logged_with_its_reason),
      ACCOUNTED(a_connection_keeps_little_memory_between_requests),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
