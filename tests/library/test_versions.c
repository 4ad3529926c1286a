// Sends requests to the installed libmicrohttpd (rehearsal.h), and checks its row in server/http/library.c.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <microhttpd.h>
#include <string.h>

#include "tests/library/rehearsal.h"

static struct library row;  // of the installed library

static void play(struct rehearsal *rehearsal) {
  if (!rehearse(rehearsal)) fail_msg("libmicrohttpd cannot be started");
}

#define SENT(TEXT) (TEXT), sizeof(TEXT) - 1
#define REQUEST(TEXT) .request = (TEXT), .length = sizeof(TEXT) - 1

// In strict mode, some versions answer a head without Host twice. The daemon does not use the strict mode of those
// versions.
static void it_is_strict_if_it_then_answers_once(void **state) {
  (void)state;
  const struct library strict = {.strict = true};
  struct rehearsal bad = {.library = &strict, REQUEST("GET / HTTP/1.1\r\n\r\n")};
  struct rehearsal good = {.library = &strict, REQUEST("GET / HTTP/1.1\r\nHost: x\r\n\r\n")};
  play(&bad);
  play(&good);
  assert_int_equal(row.strict, !bad.reached && bad.answers == 1 && good.reached && good.answers == 1);
}

// Requests that every server reads in the same way.
static const struct sent {
  const char *text;
  size_t length;
} plain[] = {
    {SENT("GET /a?b=c%20d&e HTTP/1.1\r\nHost: x\r\nX:12\r\nY:\r\nCookie: a=b; c\r\nZ: \t z \t\r\nW: \r\n\r\n")},
    {SENT("GET / HTTP/1.0\r\n\r\n")},
    {SENT("POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n03\r\ncde\r\n0\r\n\r\n")},
};

// Requests that servers read differently.
static const struct sent odd[] = {
    {SENT("GET /a\0b HTTP/1.1\r\nHost: x\r\n\r\n")},
    {SENT("GET /a\0HTTP/ HTTP/1.1\r\nHost: x\r\n\r\n")},
    {SENT("GET /a HTTP/1.1\r\nHost: x\r\nX: 1\0002\r\nY: z\r\n\r\n")},
    {SENT("GET /a HTTP/1.1\r\nHost: x\r\nX: 12\0\r\n\r\n")},
    {SENT("GET /a HTTP/1.1\r\nX: 12\0\0Y\r\nHost: x\r\n\r\n")},
    {SENT("GET /a HTTP/1.1\r\nHost: x\r\nX: 1\r\n 2\r\n\r\n")},
    {SENT("GET /a HTTP/1.1\r\nHost: x\r\n y\r\nX: 1\r\n\r\n")},
    {SENT("GET /a HTTP/1.1\r\nHost: x\r\n: 1\r\n\r\n")},
    {SENT("GET /a HTTP/1.1\r\nHost: x\nX: 1\r\n\r\n")},
    {SENT("POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\nab\r\n3\r\ncde\r\n0\r\n\r\n")},
    {SENT("POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\n3\r\ncde\r\n0\r\n\r\n")},
    {SENT("POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2;a\0b\r\nab\r\n0\r\n\r\n")},
};

// Whether the answer is 200 and, if `laid_out` is set, the request lies in memory as it was sent (head_trace.h).
static bool is_taken(const struct library *library, const struct sent *sent) {
  struct rehearsal rehearsal = {.library = library, .request = sent->text, .length = sent->length};
  play(&rehearsal);
  const char *answer = rehearsal.answer;
  return strncmp(answer, "HTTP/1.", 7) == 0 && strncmp(answer + 8, " 200 ", 5) == 0 && !rehearsal.broken;
}

static void requests_that_servers_read_alike_are_taken(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
    if (!is_taken(&row, &plain[i])) fail_msg("refused: %s", plain[i].text);
}

static void requests_that_servers_read_differently_are_refused(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
    if (is_taken(&row, &odd[i])) fail_msg("taken, number %zu: %s", i, odd[i].text);
}

static void memory_is_looked_at_if_the_library_refuses_too_little(void **state) {
  (void)state;
  struct library blind = {.strict = row.strict};
  bool too_little = false;
  for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) too_little |= is_taken(&blind, &odd[i]);
  assert_int_equal(row.laid_out, too_little);
}

// This query needs more memory than a connection has. Unless the query is cut, some versions then neither answer nor
// close the connection.
static void a_query_is_cut_if_it_is_not_answered_otherwise(void **state) {
  (void)state;
  enum { MEMORY = 32 * 1024 };  // of a connection; a parameter without a value takes more than two bytes
  static const char start[] = "GET /a?", end[] = " HTTP/1.1\r\nHost: x\r\n\r\n";
  char text[MEMORY / 2];
  memset(text, '&', sizeof text);
  memcpy(text, start, sizeof start - 1);
  memcpy(text + sizeof text - (sizeof end - 1), end, sizeof end - 1);
  const struct library leaving = {.strict = row.strict};
  struct rehearsal left = {.library = &leaving, .request = text, .length = sizeof text};
  struct rehearsal used = {.library = &row, .request = text, .length = sizeof text};
  play(&left);
  play(&used);
  assert_int_equal(row.cut_query, left.answers == 0);
  assert_int_equal(used.answers, 1);
}

// The answer's memory may be freed before or after the request is completed, but both precede the connection's end.
static void a_job_is_answered_and_given_back(void **state) {
  (void)state;
  struct rehearsal job = {
      .held = true, .library = &row, REQUEST("POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody")};
  play(&job);
  const char *completed = strchr(job.calls, 'c'), *freed = strchr(job.calls, 'f'), *ended = strchr(job.calls, 'e');
  print_message("its calls: %s\n", job.calls);
  assert_int_equal(job.answers, 1);
  assert_int_equal(strncmp(job.answer, "HTTP/1.1 200 ", 13), 0);
  assert_non_null(strstr(job.answer, "heard"));
  assert_true(completed && freed && ended && completed < ended && freed < ended);
}

static void a_rehearsal_tells_what_was_called(void **state) {
  (void)state;
  struct rehearsal good = {.library = &row, REQUEST("GET /a HTTP/1.1\r\nHost: x\r\n\r\n")};
  struct rehearsal bad = {.library = &row, REQUEST("rubbish\r\n\r\n")};
  play(&good);
  play(&bad);
  assert_true(good.reached);
  assert_int_equal(good.answers, 1);
  assert_true(strcmp(good.calls, "thdcfe") == 0 || strcmp(good.calls, "thdfce") == 0);
  assert_false(bad.reached);
  assert_null(strchr(bad.calls, 'h'));
  assert_non_null(strchr(bad.calls, 'e'));
}

static int find_row(void **state) {
  struct error error;
  (void)state;
  if (library_find(&row, MHD_get_version(), &error)) return 0;
  print_error("%s\n", error.text);
  return -1;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(it_is_strict_if_it_then_answers_once),
      cmocka_unit_test(requests_that_servers_read_alike_are_taken),
      cmocka_unit_test(requests_that_servers_read_differently_are_refused),
      cmocka_unit_test(memory_is_looked_at_if_the_library_refuses_too_little),
      cmocka_unit_test(a_query_is_cut_if_it_is_not_answered_otherwise),
      cmocka_unit_test(a_job_is_answered_and_given_back),
      cmocka_unit_test(a_rehearsal_tells_what_was_called),
  };
  return cmocka_run_group_tests(tests, find_row, NULL);
}
