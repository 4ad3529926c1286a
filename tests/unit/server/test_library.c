// What is learnt of libmicrohttpd, and how it is read from texts.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <microhttpd.h>
#include <stdio.h>
#include <string.h>

#include "server/http/learn.h"
#include "server/http/rehearsal.h"

static bool is_0_9(void) { return strncmp(MHD_get_version(), "0.", 2) == 0; }

static struct library learnt(void) {
  struct library library;
  char error[512] = "";
  bool good = library_learn(&library, error, sizeof error);
  print_message("libmicrohttpd %s: strict %d, NUL in a value %d, in a target %d\n", MHD_get_version(), library.strict,
                library.value, library.target);
  if (!good) fail_msg("%s", error);
  return library;
}

static void no_nul_is_hidden(void **state) {
  (void)state;
  struct library library = learnt();
  assert_int_equal(library.value, is_0_9() ? NUL_MARKED : NUL_REFUSED);
  assert_int_equal(library.target, is_0_9() ? NUL_MARKED : NUL_REFUSED);
}

static void later_versions_can_be_strict(void **state) {
  (void)state;
  struct library library = learnt();
  assert_true(library.strict || is_0_9());
}

static void a_nul_that_is_handed_on_is_found(void **state) {
  (void)state;
  struct library library = {.value = NUL_HIDDEN};
  assert_true(library_value_has_nul(&library, "1\0002", 3));
  assert_false(library_value_has_nul(&library, "1\0002", 1));
}

// As old versions leave it: NULs for CR and LF, or the rest of a text that was cut.
static void a_mark_is_read_behind_the_text(void **state) {
  (void)state;
  static const char whole[] = "12\0\0Y: z", cut[] = "1\0002\0\0", whole_target[] = "/a\0HTTP/1.1",
                    cut_target[] = "/a\0b HTTP/1.1";
  struct library library = {.value = NUL_MARKED, .target = NUL_MARKED};
  assert_false(library_value_has_nul(&library, whole, strlen(whole)));
  assert_true(library_value_has_nul(&library, cut, strlen(cut)));
  assert_false(library_target_has_nul(&library, whole_target));
  assert_true(library_target_has_nul(&library, cut_target));
}

// Nothing is read behind a text if the library leaves no mark there.
static void without_marks_nothing_is_read_behind_a_text(void **state) {
  (void)state;
  static const char text[] = {'1', '\0'};
  for (enum library_nul nul = NUL_REFUSED; nul <= NUL_HIDDEN; nul++) {
    struct library library = {.value = nul, .target = nul};
    if (nul == NUL_MARKED) continue;
    assert_false(library_value_has_nul(&library, text, 1));
    assert_false(library_target_has_nul(&library, text));
  }
}

static void the_status_of_a_refusal_is_read_from_its_message(void **state) {
  (void)state;
  assert_int_equal(library_own_status("Error processing request (HTTP response code is 431 ('...')). Closing"), 431);
  assert_int_equal(library_own_status("Failed to bind"), 0);
  assert_int_equal(library_own_status(""), 0);
}

static void a_rehearsal_tells_what_was_called(void **state) {
  (void)state;
  static const char page[] = "GET /a HTTP/1.1\r\nHost: x\r\n\r\n", rubbish[] = "rubbish\r\n\r\n";
  struct library library = {.value = NUL_HIDDEN};
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
      cmocka_unit_test(no_nul_is_hidden),
      cmocka_unit_test(later_versions_can_be_strict),
      cmocka_unit_test(a_nul_that_is_handed_on_is_found),
      cmocka_unit_test(a_mark_is_read_behind_the_text),
      cmocka_unit_test(without_marks_nothing_is_read_behind_a_text),
      cmocka_unit_test(the_status_of_a_refusal_is_read_from_its_message),
      cmocka_unit_test(a_rehearsal_tells_what_was_called),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
