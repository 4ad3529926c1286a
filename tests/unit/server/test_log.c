// Log lines, read back from stderr.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "server/base/log.h"
#include "tests/support/logged.h"
#include "tests/support/moved_clock.h"

static int open_log(void **state) {
  (void)state;
  moved_clock_ns = 1000 * NS_PER_S + 42 * NS_PER_MS;
  log_configure(LOG_INFO, LOG_LOGFMT);
  return logged_begin() ? 0 : -1;
}

static int close_log(void **state) {
  (void)state;
  return logged_end() ? 0 : -1;
}

#define START "ts=1970-01-01T00:16:40.042Z level="
#define START_JSON "{\"ts\":\"1970-01-01T00:16:40.042Z\",\"level\":"

static void a_line_in_logfmt(void **state) {
  (void)state;
  struct log_line line;
  log_begin(&line, LOG_WARNING, "one");
  log_string(&line, "who", "lidar-7");
  log_integer(&line, "bytes", -5);
  log_end(&line);
  assert_string_equal(logged(), START "warning msg=one who=lidar-7 bytes=-5\n");
}

static void a_line_in_json(void **state) {
  (void)state;
  struct log_line line;
  log_configure(LOG_INFO, LOG_JSON);
  log_begin(&line, LOG_ERROR, "one");
  log_string(&line, "who", "a \"b\"");
  log_integer(&line, "bytes", 5);
  log_milliseconds(&line, "ms", 1500000);
  log_end(&line);
  assert_string_equal(logged(),
                      START_JSON "\"error\",\"msg\":\"one\",\"who\":\"a \\\"b\\\"\",\"bytes\":5,\"ms\":1.500}\n");
}

static void nanoseconds_are_written_as_milliseconds(void **state) {
  (void)state;
  static const struct {
    int64_t ns;
    const char *written;
  } cases[] = {{0, "0.000"}, {1234, "0.001"}, {1500000, "1.500"}, {NS_PER_S, "1000.000"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct log_line line;
    char expected[256];
    log_begin(&line, LOG_INFO, "one");
    log_milliseconds(&line, "ms", cases[i].ns);
    log_end(&line);
    snprintf(expected, sizeof expected, START "info msg=one ms=%s\n", cases[i].written);
    assert_string_equal(logged(), expected);
  }
}

static void a_value_is_quoted_if_it_must_be(void **state) {
  (void)state;
  static const struct {
    const char *value, *written;
  } cases[] = {{"plain/-._:,;'", "plain/-._:,;'"},
               {"", "\"\""},
               {"a b", "\"a b\""},
               {"/a=b", "\"/a=b\""},
               {"a\"b", "\"a\\\"b\""},
               {"a\\b", "\"a\\\\b\""},
               {"a\nb", "\"a\\u000ab\""},
               {"a\x7f", "\"a\\u007f\""},
               {"\xc3\xa4", "\"\xc3\xa4\""},
               {"\xff", "\"\xef\xbf\xbd\""}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char expected[256];
    log_event(LOG_INFO, "one", "key", cases[i].value);
    snprintf(expected, sizeof expected, START "info msg=one key=%s\n", cases[i].written);
    assert_string_equal(logged(), expected);
  }
}

static void levels_below_the_least_are_left_out(void **state) {
  (void)state;
  static const char *const names[] = {"notice", "error", "warning", "info", "debug"};
  for (enum log_level least = LOG_ERROR; least <= LOG_DEBUG; least++) {
    log_configure(least, LOG_LOGFMT);
    for (enum log_level level = LOG_NOTICE; level <= LOG_DEBUG; level++) {
      char expected[256] = "";
      log_event(level, "one", "key", "v");
      if (level <= least) snprintf(expected, sizeof expected, START "%s msg=one key=v\n", names[level - LOG_NOTICE]);
      assert_string_equal(logged(), expected);
    }
  }
}

// A field that does not fit is left out; later fields are kept.
static void a_line_too_long_is_cut_between_fields(void **state) {
  (void)state;
  char large[2048];
  memset(large, 'x', sizeof large - 1);
  large[sizeof large - 1] = '\0';
  for (int json = 0; json < 2; json++) {
    struct log_line line;
    log_configure(LOG_INFO, json ? LOG_JSON : LOG_LOGFMT);
    log_begin(&line, LOG_INFO, "one");
    log_string(&line, "large", large);
    log_integer(&line, "n", 7);
    log_end(&line);
    assert_string_equal(logged(), json ? START_JSON "\"info\",\"msg\":\"one\",\"n\":7,\"cut\":true}\n"
                                       : START "info msg=one n=7 cut=true\n");
  }
}

// Lines of every length near the end of the line's memory: a field is written whole, or left out.
static void a_field_of_any_kind_fits_or_is_left_out(void **state) {
  (void)state;
  static const char *const values[] = {"1234567", "1234567", "1234.567"};
  char filler[2048];
  for (int kind = 0; kind < 3; kind++) {
    int left_out = 0;
    for (size_t length = 1900; length < 2047; length++) {
      struct log_line line;
      char end[32];
      memset(filler, 'x', length);
      filler[length] = '\0';
      log_begin(&line, LOG_INFO, "one");
      log_string(&line, "f", filler);
      bool filled = !line.cut;
      if (kind == 0) log_string(&line, "key", values[kind]);
      if (kind == 1) log_integer(&line, "key", 1234567);
      if (kind == 2) log_milliseconds(&line, "key", 1234567000);
      bool cut = line.cut;
      log_end(&line);
      snprintf(end, sizeof end, " key=%s%s\n", values[kind], cut ? " cut=true" : "");
      if (cut && filled) snprintf(end, sizeof end, "x cut=true\n");
      left_out += cut && filled;
      const char *written = logged();
      size_t size = strlen(written);
      assert_true(size > strlen(end) && size <= sizeof line.memory && strchr(written, '\n') == written + size - 1);
      assert_string_equal(written + size - strlen(end), end);
    }
    assert_int_equal(left_out, strlen(" key=") + strlen(values[kind]));  // one line for each number of missing bytes
  }
}

// The last test, since the log's thread cannot start again.
static void each_line_that_nobody_reads_is_counted(void **state) {
  (void)state;
  struct error reason;
  assert_int_equal(log_lines_dropped(), 0);
  assert_true(signal(SIGPIPE, SIG_IGN) != SIG_ERR);
  int kept = dup(logged_ends[0]);
  assert_true(kept >= 0 && close(logged_ends[0]) == 0);
  assert_true(log_start(&reason));
  assert_int_equal(close(kept), 0);                   // no reader is left
  moved_clock_ns = (long long)time(NULL) * NS_PER_S;  // log_stop reads this clock, but waits by the real one
  for (int i = 0; i < 7; i++) log_event(LOG_INFO, "one", "key", "value");
  log_stop();
  int spare[2];  // a new reader in place of the closed one
  assert_true(pipe(spare) == 0 && dup2(spare[0], logged_ends[0]) == logged_ends[0]);
  if (spare[0] != logged_ends[0]) assert_int_equal(close(spare[0]), 0);
  assert_int_equal(close(spare[1]), 0);
  assert_int_equal(log_lines_dropped(), 7);
}

#define LOGGED(test) cmocka_unit_test_setup_teardown(test, open_log, close_log)

int main(void) {
  const struct CMUnitTest tests[] = {
      LOGGED(a_line_in_logfmt),
      LOGGED(a_line_in_json),
      LOGGED(nanoseconds_are_written_as_milliseconds),
      LOGGED(a_value_is_quoted_if_it_must_be),
      LOGGED(levels_below_the_least_are_left_out),
      LOGGED(a_line_too_long_is_cut_between_fields),
      LOGGED(a_field_of_any_kind_fits_or_is_left_out),
      LOGGED(each_line_that_nobody_reads_is_counted),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
