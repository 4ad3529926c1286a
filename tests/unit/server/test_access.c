// Who may enter, by the credentials that a request shows. Tokens and certificates themselves have tests of their own.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "server/clients/access.h"

static void who_enters(void **state) {
  (void)state;
  static const struct {
    bool takes_tokens, anonymous;
    struct credential credential;
    enum problem_kind kind;  // PROBLEM_NONE: it enters
  } cases[] = {{false, false, {0, NULL, NULL}, PROBLEM_NONE},
               {false, false, {1, "Basic abc", NULL}, PROBLEM_NONE},
               {false, false, {2, "Basic abc", NULL}, PROBLEM_BAD_REQUEST},
               {true, false, {0, NULL, NULL}, PROBLEM_UNAUTHORIZED},
               {true, false, {1, "Basic abc", NULL}, PROBLEM_INVALID_TOKEN},
               {true, false, {1, "Bearerabc", NULL}, PROBLEM_INVALID_TOKEN},
               {true, true, {0, NULL, NULL}, PROBLEM_NONE},
               {true, true, {1, "Basic abc", NULL}, PROBLEM_INVALID_TOKEN}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct access access = {.takes_tokens = cases[i].takes_tokens, .anonymous = cases[i].anonymous};
    struct problem problem = {.kind = PROBLEM_NONE};
    char user[USER_SIZE] = "x";
    assert_int_equal(access_check(&access, &cases[i].credential, user, &problem), cases[i].kind == PROBLEM_NONE);
    assert_int_equal(problem.kind, cases[i].kind);
    assert_true(cases[i].kind != PROBLEM_NONE || user[0] == '\0');
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(who_enters)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
