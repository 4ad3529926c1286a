// libmicrohttpd: the table of its versions, and what is read from its memory and its messages.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "server/http/head_trace.h"
#include "server/http/library.h"

// Whether library_find finds the version. `said`: the log, or the error.
static bool finds(const char *version, struct library *library, char *said, size_t size) {
  struct error error;
  FILE *file = tmpfile();
  int kept = dup(STDERR_FILENO);
  assert_true(file && kept >= 0 && dup2(fileno(file), STDERR_FILENO) == STDERR_FILENO);
  bool found = library_find(library, version, &error);
  assert_int_equal(dup2(kept, STDERR_FILENO), STDERR_FILENO);
  close(kept);
  rewind(file);
  size_t length = found ? fread(said, 1, size - 1, file) : (size_t)snprintf(said, size, "%s", error.text);
  said[length] = '\0';
  assert_int_equal(fclose(file), 0);
  return found;
}

static void a_tested_version_has_a_row(void **state) {
  static const char *const tested[] = {"0.9.75", "0.9.76", "1.0.0", "1.0.1"};
  (void)state;
  for (size_t i = 0; i < sizeof tested / sizeof *tested; i++) {
    struct library library;
    char said[512];
    assert_true(finds(tested[i], &library, said, sizeof said));
    assert_string_equal(said, "");
  }
}

static void another_version_has_the_row_before_it_and_a_warning(void **state) {
  static const struct {
    const char *version;
    bool strict;
  } others[] = {{"0.9.77", false}, {"0.9.99", false}, {"1.0.2", true},
                {"1.0.10", true},  {"1.2.0", true},   {"2.0", true}};
  (void)state;
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    struct library library;
    char said[512], version[64];
    assert_true(finds(others[i].version, &library, said, sizeof said));
    assert_int_equal(library.strict, others[i].strict);
    snprintf(version, sizeof version, "version=%s", others[i].version);
    assert_non_null(strstr(said, "level=warning"));
    assert_non_null(strstr(said, "not tested"));
    assert_non_null(strstr(said, version));
  }
}

static void an_older_version_is_refused(void **state) {
  static const char *const old[] = {"0.9.74", "0.9.72", "0.9", ""};
  (void)state;
  for (size_t i = 0; i < sizeof old / sizeof *old; i++) {
    struct library library;
    char said[512], expected[512];
    assert_false(finds(old[i], &library, said, sizeof said));
    snprintf(expected, sizeof expected, "libmicrohttpd is %s; the oldest supported version is 0.9.75", old[i]);
    assert_string_equal(said, expected);
  }
}

// A head as an old version leaves it: NULs for the request line's blanks, colons, and CR LF.
#define HEAD "GET\0/a\0HTTP/1.1\0\0Host\0 x\0\0Y\0\0\0\0\0"

static bool head_lies_as_sent(const char *head, size_t size, size_t first_name, size_t first_value) {
  struct head_trace layout;
  head_trace_begin(&layout, head + 6, head + 7);
  head_trace_header(&layout, head + first_name, 4, head + first_value, strlen(head + first_value));
  head_trace_header(&layout, head + 26, 1, head + 28, 0);
  return head_trace_end(&layout, head + size);
}

static void a_gap_in_a_head_shows(void **state) {
  (void)state;
  static const char whole[] = HEAD, cut[] = "GET\0/a\0HTTP/1.1\0\0Host\0\0x\0\0Y\0\0\0\0\0";
  enum { SIZE = sizeof whole - 1 };
  assert_true(head_lies_as_sent(whole, SIZE, 17, 22 + 1));
  assert_false(head_lies_as_sent(whole, SIZE - 1, 17, 22 + 1));
  assert_false(head_lies_as_sent(whole, SIZE + 1, 17, 22 + 1));
  assert_false(head_lies_as_sent(whole, SIZE, 18, 22 + 1));
  assert_false(head_lies_as_sent(cut, sizeof cut - 1, 17, 22));
}

static bool line_is_sound(const char *before) { return head_trace_chunk_is_sound(before, before + strlen(before)); }

static void a_bare_lf_before_a_chunk_shows(void **state) {
  (void)state;
  static const char *const sound[] = {"", "5\r\n", "5;x=y\r\n", "abcde\r\n5\r\n", "\r\n5\r\n"};
  static const char *const odd[] = {"5\n", "5;\n", "\n", "\r\n", "abcde\n5\r\n", "\n5\r\n", "abcde\r\n5\n"};
  for (size_t i = 0; i < sizeof sound / sizeof *sound; i++) assert_true(line_is_sound(sound[i]));
  for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) assert_false(line_is_sound(odd[i]));
}

static bool extension_is_sound(const char *extension, size_t size) {
  char memory[256] = "abcde\r\n5";
  size_t length = strlen(memory);
  char *end = memory + length + size;
  memcpy(memory + length, extension, size);
  end[0] = '\r';
  end[1] = '\n';
  const char *data = end + 2;
  // The chunk's line alone, and after the data of an earlier chunk.
  bool alone = head_trace_chunk_is_sound(memory + 7, data), behind = head_trace_chunk_is_sound(memory, data);
  assert_int_equal(alone, behind);
  return alone;
}

static void a_control_byte_in_an_extension_shows(void **state) {
  (void)state;
  char filler[200];
  memset(filler, 'x', sizeof filler);
  assert_true(extension_is_sound(";x=\"y\tz\xe4\"", 9));
  assert_true(extension_is_sound(filler, sizeof filler));
  for (int byte = 0; byte < 256; byte++) {
    if (byte == '\n') continue;  // ends the line
    bool sound = byte == '\t' || (byte >= ' ' && byte != 0x7f);
    const char early[] = {';', (char)byte, 'x'}, late[] = {';', 'x', (char)byte};
    assert_int_equal(extension_is_sound(early, sizeof early), sound);
    assert_int_equal(extension_is_sound(late, sizeof late), sound);
    filler[1] = (char)byte;
    assert_int_equal(extension_is_sound(filler, sizeof filler), sound);
  }
}

static void blanks_after_a_value_are_cut(void **state) {
  (void)state;
  static const char *const cases[][2] = {{"", ""},     {"a", "a"},        {"a ", "a"},   {"a\t", "a"},
                                         {" \t ", ""}, {"a b \t", "a b"}, {" a ", " a"}, {"a\v ", "a\v"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char value[16];
    strcpy(value, cases[i][0]);
    library_cut_blanks(value, strlen(value));
    assert_string_equal(value, cases[i][1]);
  }
}

static void the_status_of_a_refusal_is_read_from_its_message(void **state) {
  (void)state;
  assert_int_equal(library_own_status("Error processing request (HTTP response code is 431 ('...')). Closing"), 431);
  assert_int_equal(library_own_status("Failed to bind"), 0);
  assert_int_equal(library_own_status(""), 0);
}

static void messages_that_clients_cause_are_recognized(void **state) {
  (void)state;
  assert_true(library_tells_of_one_end("Application reported internal error, closing connection."));
  assert_true(library_tells_of_one_end("Connection was closed by remote side with incomplete request."));
  assert_true(library_tells_of_one_end("Failed to send the response headers for the request for `/'. Error: x"));
  assert_false(library_tells_of_one_end("Error accepting connection: Too many open files"));
  assert_false(library_tells_of_one_end("Closing connection (out of memory)."));
  assert_false(library_tells_of_one_end(""));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_tested_version_has_a_row),
      cmocka_unit_test(another_version_has_the_row_before_it_and_a_warning),
      cmocka_unit_test(an_older_version_is_refused),
      cmocka_unit_test(a_gap_in_a_head_shows),
      cmocka_unit_test(a_bare_lf_before_a_chunk_shows),
      cmocka_unit_test(a_control_byte_in_an_extension_shows),
      cmocka_unit_test(blanks_after_a_value_are_cut),
      cmocka_unit_test(the_status_of_a_refusal_is_read_from_its_message),
      cmocka_unit_test(messages_that_clients_cause_are_recognized),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
