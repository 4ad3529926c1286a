// Which credentials let a request in. test_tokens.c and tests/fault cover tokens and certificates.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/clients/access.h"

static void who_enters(void **state) {
  (void)state;
  static const struct {
    bool takes_tokens, anonymous;
    struct credential credential;
    enum error_kind kind;  // ERROR_NONE: let in
  } cases[] = {{false, false, {0, NULL, NULL}, ERROR_NONE},
               {false, false, {1, "Basic abc", NULL}, ERROR_NONE},
               {false, false, {2, "Basic abc", NULL}, ERROR_BAD_REQUEST},
               {true, false, {0, NULL, NULL}, ERROR_UNAUTHORIZED},
               {true, false, {1, "Basic abc", NULL}, ERROR_INVALID_TOKEN},
               {true, false, {1, "Bearerabc", NULL}, ERROR_INVALID_TOKEN},
               {true, true, {0, NULL, NULL}, ERROR_NONE},
               {true, true, {1, "Basic abc", NULL}, ERROR_INVALID_TOKEN}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct access access = {.takes_tokens = cases[i].takes_tokens, .anonymous = cases[i].anonymous};
    struct error error = {.kind = ERROR_NONE};
    char user[USER_SIZE] = "x";
    assert_int_equal(access_check(&access, &cases[i].credential, user, &error), cases[i].kind == ERROR_NONE);
    assert_int_equal(error.kind, cases[i].kind);
    assert_true(cases[i].kind != ERROR_NONE || user[0] == '\0');
  }
}

static void what_is_asked_for(void **state) {
  (void)state;
  struct access access = {.takes_tokens = true};
  struct error error;
  char user[USER_SIZE];
  assert_false(access_check(&access, &(struct credential){.count = 0}, user, &error));
  assert_string_equal(error.text, "show a token (Authorization: Bearer TOKEN)");
  for (enum error_kind kind = 0; kind < ERROR_COUNT; kind++) {
    const char *challenge = access_challenge(kind);
    if (kind == ERROR_UNAUTHORIZED)
      assert_string_equal(challenge, "Bearer realm=\"voxeld\"");
    else if (kind == ERROR_INVALID_TOKEN)
      assert_string_equal(challenge, "Bearer realm=\"voxeld\", error=\"invalid_token\"");
    else
      assert_null(challenge);
  }
}

static void what_allows_to_be_exposed(void **state) {
  (void)state;
  for (int i = 0; i < 8; i++) {
    struct access access = {.anonymous = i & 1, .takes_tokens = i & 2, .tls.asks_clients = i & 4};
    assert_int_equal(access_may_expose(&access), i != 0);
  }
}

// ---- a token file ---------------------------------------------------------------------------------------------------

static struct options options;

static int make_file(void **state) {
  (void)state;
  options = (struct options){.token_file = "/tmp/voxeld-access-XXXXXX", .tls_priorities = "NORMAL"};
  int fd = mkstemp(options.token_file);
  return fd < 0 ? -1 : close(fd);
}

static int remove_file(void **state) {
  (void)state;
  return unlink(options.token_file);
}

static void write_token(const char *name, char token[TOKEN_SIZE]) {
  char line[TOKEN_LINE_SIZE];
  struct error error = {0};
  assert_true(token_make(name, token, line, &error));
  FILE *file = fopen(options.token_file, "w");
  assert_non_null(file);
  assert_true(fprintf(file, "%s\n", line) > 0 && fclose(file) == 0);
}

// Sends "Authorization: SCHEME TOKEN". Returns the user; NULL: refused.
static const char *enters(struct access *access, const char *scheme, const char *token) {
  static char user[USER_SIZE];
  char header[TOKEN_SIZE + 32];
  struct error error = {.kind = ERROR_NONE};
  snprintf(header, sizeof header, "%s%s", scheme, token);
  bool good = access_check(access, &(struct credential){.count = 1, .value = header}, user, &error);
  assert_int_equal(error.kind, good ? ERROR_NONE : ERROR_INVALID_TOKEN);
  return good ? user : NULL;
}

static void a_token_is_its_users_until_it_is_replaced(void **state) {
  (void)state;
  struct access access;
  char first[TOKEN_SIZE], second[TOKEN_SIZE];
  struct error error = {0};
  write_token("alice", first);
  if (!access_open(&access, &options, &error)) fail_msg("%s", error.text);
  assert_true(access_may_expose(&access));
  static const char *const schemes[] = {"Bearer ", "bearer   ", "BEARER "}, *const others[] = {"Bearer", "Beare ",
                                                                                               "Bearer\t"};
  for (int i = 0; i < 3; i++) {
    const char *user = enters(&access, schemes[i], first);
    assert_non_null(user);
    assert_string_equal(user, "alice");
    assert_null(enters(&access, others[i], first));
  }
  write_token("bob", second);
  assert_null(enters(&access, "Bearer ", second));
  assert_true(access_reload_tokens(&access, &options, &error));
  assert_string_equal(enters(&access, "Bearer ", second), "bob");
  assert_null(enters(&access, "Bearer ", first));
  const struct options none = {.token_file = "/nowhere/tokens"};
  assert_false(access_reload_tokens(&access, &none, &error));
  assert_non_null(strstr(error.text, none.token_file));
  assert_string_equal(enters(&access, "Bearer ", second), "bob");
  access_close(&access);
}

static void a_token_file_that_is_not_there_is_an_error(void **state) {
  (void)state;
  struct access access;
  struct error error;
  const struct options none = {.token_file = "/nowhere/tokens"};
  assert_false(access_open(&access, &none, &error));
  assert_non_null(strstr(error.text, "/nowhere/tokens"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(who_enters),
      cmocka_unit_test(what_is_asked_for),
      cmocka_unit_test(what_allows_to_be_exposed),
      cmocka_unit_test_setup_teardown(a_token_is_its_users_until_it_is_replaced, make_file, remove_file),
      cmocka_unit_test(a_token_file_that_is_not_there_is_an_error),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
