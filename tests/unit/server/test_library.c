// What is learnt of libmicrohttpd, and how it is read from texts.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <microhttpd.h>
#include <stdio.h>
#include <string.h>

#include "server/http/layout.h"
#include "server/http/learn.h"
#include "server/http/rehearsal.h"

static bool is_0_9(void) { return strncmp(MHD_get_version(), "0.", 2) == 0; }

static struct library learnt(void) {
  struct library library;
  char error[512] = "";
  bool good = library_learn(&library, error, sizeof error);
  print_message("libmicrohttpd %s: strict %d, laid out %d, queries cut %d\n", MHD_get_version(), library.strict,
                library.laid_out, library.cut_query);
  if (!good) fail_msg("%s", error);
  return library;
}

static void a_request_is_looked_at_in_old_versions_only(void **state) {
  (void)state;
  struct library library = learnt();
  assert_int_equal(library.laid_out, is_0_9());
}

static void later_versions_can_be_strict(void **state) {
  (void)state;
  struct library library = learnt();
  assert_true(library.strict || is_0_9());
}

// A head as old versions leave it: NULs in place of a blank, colons, and CR LF.
#define HEAD "GET\0/a\0HTTP/1.1\0\0Host\0 x\0\0Y\0\0\0\0\0"

static bool head_lies_as_sent(const char *head, size_t size, size_t first_name, size_t first_value) {
  struct layout layout;
  layout_begin(&layout, head + 6, head + 7);
  layout_header(&layout, head + first_name, 4, head + first_value, strlen(head + first_value));
  layout_header(&layout, head + 26, 1, head + 28, 0);
  return layout_end(&layout, head + size);
}

static void a_gap_in_a_head_shows(void **state) {
  (void)state;
  static const char whole[] = HEAD, cut[] = "GET\0/a\0HTTP/1.1\0\0Host\0\0x\0\0Y\0\0\0\0\0";
  static const char head_without_end[] = "/a\0HTTP/1.1\0\0\0\0";
  enum { SIZE = sizeof whole - 1 };
  struct layout layout;
  assert_true(head_lies_as_sent(whole, SIZE, 17, 22 + 1));
  assert_false(head_lies_as_sent(whole, SIZE - 1, 17, 22 + 1));
  assert_false(head_lies_as_sent(whole, SIZE + 1, 17, 22 + 1));
  assert_false(head_lies_as_sent(whole, SIZE, 18, 22 + 1));
  assert_false(head_lies_as_sent(cut, sizeof cut - 1, 17, 22));
  layout_begin(&layout, head_without_end + 2, head_without_end + 3);  // its end is not known
  assert_true(layout_end(&layout, NULL));
  assert_false(layout_end(&layout, head_without_end));
  layout.next--;
  assert_false(layout_end(&layout, NULL));
  layout_begin(&layout, NULL, whole + 7);
  assert_true(layout.broken);
}

static bool line_is_sound(const char *before) { return layout_chunk_is_sound(before, before + strlen(before)); }

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
  // The line alone, and behind the data of the chunk before it.
  bool alone = layout_chunk_is_sound(memory + 7, data), behind = layout_chunk_is_sound(memory, data);
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

static void blanks_behind_a_value_are_cut(void **state) {
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

static void what_clients_bring_about_is_told_from_other_messages(void **state) {
  (void)state;
  assert_true(library_tells_of_one_end("Application reported internal error, closing connection."));
  assert_true(library_tells_of_one_end("Connection was closed by remote side with incomplete request."));
  assert_true(library_tells_of_one_end("Failed to send the response headers for the request for `/'. Error: x"));
  assert_false(library_tells_of_one_end("Error accepting connection: Too many open files"));
  assert_false(library_tells_of_one_end("Closing connection (out of memory)."));
  assert_false(library_tells_of_one_end(""));
}

static void a_rehearsal_tells_what_was_called(void **state) {
  (void)state;
  static const char page[] = "GET /a HTTP/1.1\r\nHost: x\r\n\r\n", rubbish[] = "rubbish\r\n\r\n";
  struct library library = {.laid_out = false};
  struct rehearsal good = {.library = &library, .request = page, .length = sizeof page - 1};
  struct rehearsal bad = {.library = &library, .request = rubbish, .length = sizeof rubbish - 1};
  assert_true(rehearse(&good) && rehearse(&bad));
  assert_true(good.reached);
  assert_int_equal(good.answers, 1);
  assert_true(strcmp(good.calls, "thdcfe") == 0 || strcmp(good.calls, "thdfce") == 0);
  assert_false(bad.reached);
  assert_null(strchr(bad.calls, 'h'));
  assert_non_null(strchr(bad.calls, 'e'));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_request_is_looked_at_in_old_versions_only),
      cmocka_unit_test(later_versions_can_be_strict),
      cmocka_unit_test(a_gap_in_a_head_shows),
      cmocka_unit_test(a_bare_lf_before_a_chunk_shows),
      cmocka_unit_test(a_control_byte_in_an_extension_shows),
      cmocka_unit_test(blanks_behind_a_value_are_cut),
      cmocka_unit_test(the_status_of_a_refusal_is_read_from_its_message),
      cmocka_unit_test(what_clients_bring_about_is_told_from_other_messages),
      cmocka_unit_test(a_rehearsal_tells_what_was_called),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
