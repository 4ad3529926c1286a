// traceparent: a valid header continues its trace; anything else begins a new one.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <pthread.h>
#include <string.h>

#include "server/base/trace.h"

#define TRACE "4bf92f3577b34da6a3ce929d0e0e4736"
#define PARENT "00f067aa0ba902b7"

static void assert_hexadecimal(const char *digits, size_t count) {
  assert_int_equal(strlen(digits), count);
  assert_int_equal(strspn(digits, "0123456789abcdef"), count);
  assert_true(strspn(digits, "0") < count);
}

static void assert_taken(const char *text, bool sampled) {
  struct trace trace;
  trace_begin(&trace, text);
  assert_true(trace_is_clients(&trace));
  assert_string_equal(trace.trace_id, TRACE);
  assert_string_equal(trace.parent_id, PARENT);
  assert_int_equal(trace.sampled, sampled);
  assert_hexadecimal(trace.span_id, 16);
  assert_string_not_equal(trace.span_id, PARENT);
}

static void assert_new(const char *text) {
  struct trace trace;
  trace_begin(&trace, text);
  if (trace_is_clients(&trace)) fail_msg("taken over: %s", text);
  assert_hexadecimal(trace.trace_id, 32);
  assert_hexadecimal(trace.span_id, 16);
  assert_false(trace.sampled);
}

static void test_valid(void **state) {
  (void)state;
  assert_taken("00-" TRACE "-" PARENT "-01", true);
  assert_taken("00-" TRACE "-" PARENT "-00", false);
  assert_taken("00-" TRACE "-" PARENT "-03", true);
  assert_taken("00-" TRACE "-" PARENT "-fe", false);
}

static void test_later_versions(void **state) {
  (void)state;
  assert_taken("01-" TRACE "-" PARENT "-01", true);
  assert_taken("cc-" TRACE "-" PARENT "-01-what-the-future-will-be-like", true);
  assert_taken("fe-" TRACE "-" PARENT "-00-", false);
  assert_new("cc-" TRACE "-" PARENT "-01.what-the-future-will-be-like");
  assert_new("01-" TRACE "-" PARENT "-012");
  assert_new("01-" TRACE "-" PARENT "-0");
}

static void test_invalid(void **state) {
  (void)state;
  assert_new(NULL);
  static const char *const texts[] = {
      "",
      "0",
      "00",
      "00-",
      "00-" TRACE,
      "00-" TRACE "-",
      "00-" TRACE "-" PARENT,
      "00-" TRACE "-" PARENT "-",
      "00-" TRACE "-" PARENT "-0",
      "00-" TRACE "-" PARENT "-001",
      "00-" TRACE "-" PARENT "-01-",
      "00-" TRACE "-" PARENT "-01-more",
      "00-" TRACE "-" PARENT "-0g",
      "00-" TRACE "-" PARENT "-0A",
      "00-" TRACE "-" PARENT "-01 ",
      " 00-" TRACE "-" PARENT "-01",
      "ff-" TRACE "-" PARENT "-01",
      "FE-" TRACE "-" PARENT "-01",
      "0-" TRACE "-" PARENT "-01",
      "000-" TRACE "-" PARENT "-01",
      "00_" TRACE "-" PARENT "-01",
      "00-4BF92F3577B34DA6A3CE929D0E0E4736-" PARENT "-01",
      "00-00000000000000000000000000000000-" PARENT "-01",
      "00-" TRACE "-0000000000000000-01",
      "00-" TRACE "0-" PARENT "-01",
      "00-4bf92f3577b34da6a3ce929d0e0e473-" PARENT "-01",
      "00-" TRACE "-00f067aa0ba902b-01",
      "00-" TRACE "-" PARENT "-01,00-" TRACE "-" PARENT "-01",
  };
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) assert_new(texts[i]);
}

static void test_written(void **state) {
  (void)state;
  struct trace trace, read;
  char text[TRACEPARENT_LENGTH + 1];
  trace_begin(&trace, "cc-" TRACE "-" PARENT "-ff-more");
  trace_write(&trace, text);
  assert_int_equal(strlen(text), TRACEPARENT_LENGTH);
  trace_begin(&read, text);
  assert_string_equal(read.trace_id, TRACE);
  assert_string_equal(read.parent_id, trace.span_id);
  assert_string_equal(text + 53, "01");
}

static void *one_span(void *argument) {
  trace_begin(argument, NULL);
  return NULL;
}

static void test_ids_of_all_threads_differ(void **state) {
  (void)state;
  enum { THREADS = 8 };
  struct trace traces[THREADS];
  for (int i = 0; i < THREADS; i++) {
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, one_span, &traces[i]), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    for (int j = 0; j < i; j++) {
      assert_string_not_equal(traces[i].trace_id, traces[j].trace_id);
      assert_string_not_equal(traces[i].span_id, traces[j].span_id);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_valid),
      cmocka_unit_test(test_later_versions),
      cmocka_unit_test(test_invalid),
      cmocka_unit_test(test_written),
      cmocka_unit_test(test_ids_of_all_threads_differ),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
