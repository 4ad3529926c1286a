// The token table.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/clients/tokens.h"

// The SHA-256 sums of "a" and "b".
#define SUM_A "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"
#define SUM_B "3e23e8160039594a33894f6564e1b1348bbd7a0088d42c4acb73eeaed59c009d"

static struct tokens *parse(const char *text) {
  struct error error;
  struct tokens *tokens = tokens_parse(text, strlen(text), &error);
  if (!tokens) print_message("%s\n", error.text);
  assert_non_null(tokens);
  return tokens;
}

static void refused(const char *text, size_t size, const char *reason) {
  struct error error;
  assert_null(tokens_parse(text, size, &error));
  if (!strstr(error.text, reason)) fail_msg("'%s' does not say '%s'", error.text, reason);
}

#define REFUSED(text, reason) refused(text, sizeof(text) - 1, reason)

static void finds_a_token_by_its_sum(void **state) {
  (void)state;
  struct tokens *tokens = parse("alice sha256:" SUM_A "\nbob sha256:" SUM_B "\n");
  assert_int_equal(tokens_count(tokens), 2);
  assert_string_equal(tokens_find(tokens, "a"), "alice");
  assert_string_equal(tokens_find(tokens, "b"), "bob");
  assert_null(tokens_find(tokens, "c"));
  assert_null(tokens_find(tokens, ""));
  assert_null(tokens_find(tokens, "ab"));
  assert_null(tokens_find(tokens, SUM_A));
  tokens_close(tokens);
}

static void every_digit_of_a_sum_counts(void **state) {
  (void)state;
  char text[] = "alice sha256:" SUM_A;
  for (char *digit = text + strlen("alice sha256:"); *digit; digit++) {
    char was = *digit;
    *digit = was == '0' ? '1' : '0';
    struct tokens *tokens = parse(text);
    assert_null(tokens_find(tokens, "a"));
    tokens_close(tokens);
    *digit = was;
  }
}

static void comments_blanks_and_line_ends(void **state) {
  (void)state;
  struct tokens *tokens = parse("# who\r\n\n  \t\r\n  a.B_9-  \tsha256:" SUM_A "\t \r\n #\nbob sha256:" SUM_B);
  assert_int_equal(tokens_count(tokens), 2);
  assert_string_equal(tokens_find(tokens, "a"), "a.B_9-");
  assert_string_equal(tokens_find(tokens, "b"), "bob");
  tokens_close(tokens);
}

static void upper_case_sum(void **state) {
  (void)state;
  struct tokens *tokens = parse("a sha256:CA978112CA1BBDCAFAC231B39A23DC4DA786EFF8147C4E72B9807785AFEE48BB");
  assert_string_equal(tokens_find(tokens, "a"), "a");
  tokens_close(tokens);
}

static void empty_file_lets_nobody_in(void **state) {
  (void)state;
  struct tokens *tokens = parse("");
  assert_int_equal(tokens_count(tokens), 0);
  assert_null(tokens_find(tokens, "a"));
  tokens_close(tokens);
}

static void malformed_lines_are_refused_with_their_number(void **state) {
  (void)state;
  REFUSED("alice", "line 1: expected NAME");
  REFUSED("\n#\nalice " SUM_A, "line 3: expected NAME");
  REFUSED("alice sha256:" SUM_A "0", "line 1");
  REFUSED("alice sha256:cb", "line 1");
  REFUSED("alice sha1:" SUM_A, "line 1");
  REFUSED("alice SHA256:" SUM_A, "line 1");
  REFUSED("alice sha256:gg978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb", "line 1");
  REFUSED("alice sha256:" SUM_A " more", "line 1");
  REFUSED("al:ice sha256:" SUM_A, "line 1: the name");
  REFUSED("al\xc3\xa4 sha256:" SUM_A, "line 1: the name");
  REFUSED("al\0ice sha256:" SUM_A, "line 1: the name");
  REFUSED("alice sha256:ca978112ca1bbdca\0ac231b39a23dc4da786eff8147c4e72b9807785afee48bb", "line 1");
}

static void a_reason_shows_nothing_of_the_line(void **state) {
  (void)state;
  struct error error;
  assert_null(tokens_parse("alice vxt_secret", 16, &error));
  assert_null(strstr(error.text, "secret"));
}

static void names_have_up_to_64_bytes(void **state) {
  (void)state;
  char name[TOKEN_NAME_MAX + 2], text[256];
  struct error error = {0};
  memset(name, 'n', sizeof name);
  name[TOKEN_NAME_MAX] = '\0';
  snprintf(text, sizeof text, "%s sha256:" SUM_A, name);
  struct tokens *tokens = parse(text);
  assert_string_equal(tokens_find(tokens, "a"), name);
  tokens_close(tokens);
  snprintf(text, sizeof text, "%sn sha256:" SUM_A, name);
  assert_null(tokens_parse(text, strlen(text), &error));
}

static void names_and_sums_stand_once(void **state) {
  (void)state;
  REFUSED("a sha256:" SUM_A "\na sha256:" SUM_B, "line 2: the name is used twice");
  REFUSED("a sha256:" SUM_A "\nb sha256:" SUM_A, "line 2: the token is used twice");
}

static void as_many_as_the_limit(void **state) {
  (void)state;
  enum { LINE = 128 };
  char *text = malloc((size_t)(TOKENS_MAX + 1) * LINE);
  struct error error = {0};
  assert_non_null(text);
  size_t length = 0;
  for (int i = 1; i < TOKENS_MAX; i++) length += (size_t)snprintf(text + length, LINE, "n%d sha256:%064x\n", i, i);
  length += (size_t)snprintf(text + length, LINE, "last sha256:" SUM_A "\n");
  struct tokens *tokens = tokens_parse(text, length, &error);
  assert_non_null(tokens);
  assert_int_equal(tokens_count(tokens), TOKENS_MAX);
  assert_string_equal(tokens_find(tokens, "a"), "last");
  tokens_close(tokens);
  length += (size_t)snprintf(text + length, LINE, "more sha256:" SUM_B "\n");
  assert_null(tokens_parse(text, length, &error));
  assert_non_null(strstr(error.text, "more than 1024"));
  free(text);
}

static void new_tokens_are_found_by_their_line(void **state) {
  (void)state;
  char token[TOKEN_SIZE], other[TOKEN_SIZE], line[TOKEN_LINE_SIZE];
  struct error error = {0};
  assert_true(token_make("lidar-7", token, line, &error));
  struct tokens *tokens = parse(line);
  assert_string_equal(tokens_find(tokens, token), "lidar-7");
  assert_int_equal(strlen(token), 4 + 43);
  assert_int_equal(strspn(token + 4, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"), 43);
  assert_null(strstr(line, token));
  assert_true(token_make("lidar-7", other, line, &error));
  assert_string_not_equal(token, other);
  assert_null(tokens_find(tokens, other));
  tokens_close(tokens);
  assert_false(token_make("", token, line, &error));
  assert_false(token_make("a b", token, line, &error));
}

static void a_token_too_long_is_none(void **state) {
  (void)state;
  static char text[100001];
  memset(text, 'x', sizeof text - 1);
  struct tokens *tokens = parse("alice sha256:" SUM_A);
  assert_null(tokens_find(tokens, text));
  tokens_close(tokens);
}

static void files_are_loaded_and_looked_at(void **state) {
  (void)state;
  char path[] = "/tmp/voxeld-tokens-XXXXXX";
  struct error error = {0};
  bool exposed;
  int fd = mkstemp(path);
  assert_true(fd >= 0);
  assert_true(write(fd, "a sha256:" SUM_A "\n", 9 + 64 + 1) == 9 + 64 + 1);
  struct tokens *tokens = tokens_load(path, &exposed, &error);
  assert_non_null(tokens);
  assert_false(exposed);
  tokens_close(tokens);
  assert_int_equal(fchmod(fd, 0644), 0);
  tokens = tokens_load(path, &exposed, &error);
  assert_non_null(tokens);
  assert_true(exposed);
  tokens_close(tokens);
  assert_true(write(fd, "b\n", 2) == 2);
  assert_null(tokens_load(path, &exposed, &error));
  assert_non_null(strstr(error.text, path));
  assert_non_null(strstr(error.text, "line 2"));
  assert_int_equal(ftruncate(fd, 2 << 20), 0);
  assert_null(tokens_load(path, &exposed, &error));
  assert_non_null(strstr(error.text, "more than 1048576 bytes"));
  close(fd);
  unlink(path);
  assert_null(tokens_load(path, &exposed, &error));
  assert_non_null(strstr(error.text, "No such file"));
  assert_null(tokens_load("/tmp", &exposed, &error));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(finds_a_token_by_its_sum),
      cmocka_unit_test(every_digit_of_a_sum_counts),
      cmocka_unit_test(comments_blanks_and_line_ends),
      cmocka_unit_test(upper_case_sum),
      cmocka_unit_test(empty_file_lets_nobody_in),
      cmocka_unit_test(malformed_lines_are_refused_with_their_number),
      cmocka_unit_test(a_reason_shows_nothing_of_the_line),
      cmocka_unit_test(names_have_up_to_64_bytes),
      cmocka_unit_test(names_and_sums_stand_once),
      cmocka_unit_test(as_many_as_the_limit),
      cmocka_unit_test(new_tokens_are_found_by_their_line),
      cmocka_unit_test(a_token_too_long_is_none),
      cmocka_unit_test(files_are_loaded_and_looked_at),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
