// Problems: the documents that clients get.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "api/base/problem.h"

static enum problem_style style;

static const char *rendered(const struct error *error, const char *request_id) {
  static char memory[PROBLEM_TEXT_SIZE];
  struct text text = text_over(memory, sizeof memory);
  problem_render(error, style, request_id, &text);
  assert_true(text_complete(&text));
  return memory;
}

static void all_members(void **state) {
  (void)state;
  struct error error;
  assert_false(error_refuse(&error, ERROR_BAD_PARAMETER, "max_voxels", "max_voxels is %d", 0));
  assert_string_equal(rendered(&error, "r-1"),
                      "{\"type\":\"urn:voxeld:problem:bad-parameter\",\"status\":400,"
                      "\"title\":\"A parameter is unknown, repeated or out of bounds\","
                      "\"detail\":\"max_voxels is 0\",\"parameter\":\"max_voxels\",\"request_id\":\"r-1\"}\n");
}

static void without_parameter_and_request(void **state) {
  (void)state;
  struct error error;
  assert_false(error_refuse(&error, ERROR_QUEUE_FULL, NULL, "a \"b\""));
  assert_string_equal(rendered(&error, ""), "{\"type\":\"urn:voxeld:problem:queue-full\",\"status\":503,"
                                            "\"title\":\"The queue is full\",\"detail\":\"a \\\"b\\\"\"}\n");
}

static void a_long_reason_loses_its_middle(void **state) {
  (void)state;
  struct error error;
  char reason[2000];
  memset(reason, 'n', sizeof reason - 1);
  reason[sizeof reason - 1] = '\0';
  assert_false(error_refuse(&error, ERROR_MODEL_FAILED, "model", "it begins%send", reason));
  assert_int_equal(strlen(error.text), sizeof error.text - 1);
  assert_memory_equal(error.text, "it begins", strlen("it begins"));
  assert_non_null(strstr(error.text, "n ... n"));
  assert_string_equal(error.text + sizeof error.text - strlen("nend") - 1, "nend");
  assert_false(error_prefix(&error, "in front: "));
  assert_false(error_suffix(&error, "; %s", "behind"));
  assert_memory_equal(error.text, "in front: it begins", strlen("in front: it begins"));
  assert_string_equal(error.text + sizeof error.text - strlen("nend; behind") - 1, "nend; behind");
  assert_int_equal(error.kind, ERROR_MODEL_FAILED);
  assert_string_equal(error.parameter, "model");
}

static void a_reason_as_long_as_its_room_is_whole(void **state) {
  (void)state;
  struct error error;
  char reason[sizeof error.text];
  memset(reason, 'n', sizeof reason - 1);
  reason[sizeof reason - 1] = '\0';
  assert_false(error_set(&error, "%s", reason));
  assert_string_equal(error.text, reason);
}

static void each_kind_has_its_own_name_and_title(void **state) {
  (void)state;
  for (int kind = ERROR_NONE + 1; kind < ERROR_COUNT; kind++) {
    const struct problem_info *info = problem_info((enum error_kind)kind);
    struct error error;
    char expected[256];
    (void)error_refuse(&error, (enum error_kind)kind, NULL, "detail");
    snprintf(expected, sizeof expected, ":%s\",\"status\":%d,\"title\":\"%s\",", info->name, info->status, info->title);
    assert_non_null(strstr(rendered(&error, ""), expected));
    assert_true(problem_phrase(info->status)[0]);
    for (int other = ERROR_NONE; other < kind; other++) {
      assert_string_not_equal(info->name, problem_info((enum error_kind)other)->name);
      assert_string_not_equal(info->title, problem_info((enum error_kind)other)->title);
    }
  }
}

static void kserve_clients_get_an_error_and_its_statuses(void **state) {
  (void)state;
  struct error error;
  style = PROBLEM_STYLE_KSERVE;
  (void)error_refuse(&error, ERROR_IMPOSSIBLE, NULL, "too \"many\"");
  const char *text = rendered(&error, "r-1");
  style = PROBLEM_STYLE_HTTP;
  assert_non_null(strstr(text, "\"status\":400,"));
  assert_non_null(strstr(text, "\"detail\":\"too \\\"many\\\"\",\"error\":\"too \\\"many\\\"\",\"request_id\""));
  assert_int_equal(problem_status(ERROR_UNSUPPORTED_MEDIA, PROBLEM_STYLE_KSERVE), 501);
  assert_int_equal(problem_status(ERROR_MEMORY_FULL, PROBLEM_STYLE_KSERVE), 503);
  assert_int_equal(problem_status(ERROR_NONE, PROBLEM_STYLE_KSERVE), 200);
  assert_int_equal(problem_status(ERROR_IMPOSSIBLE, PROBLEM_STYLE_HTTP), 422);
  assert_string_equal(problem_phrase(501), "Not Implemented");
  assert_string_equal(problem_media_type(PROBLEM_STYLE_KSERVE), "application/json");
}

static void the_longest_document_fits(void **state) {
  (void)state;
  struct error error = {.kind = ERROR_BAD_PARAMETER};
  char id[129] = "";
  memset(error.parameter, '\x01', sizeof error.parameter - 1);
  memset(error.text, '\x01', sizeof error.text - 1);
  memset(id, 'a', sizeof id - 1);
  style = PROBLEM_STYLE_KSERVE;
  const char *text = rendered(&error, id);
  style = PROBLEM_STYLE_HTTP;
  assert_true(strlen(text) > 6 * (2 * (sizeof error.text - 1) + sizeof error.parameter - 1));
  assert_string_equal(text + strlen(text) - 4, "a\"}\n");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_members),
      cmocka_unit_test(without_parameter_and_request),
      cmocka_unit_test(kserve_clients_get_an_error_and_its_statuses),
      cmocka_unit_test(the_longest_document_fits),
      cmocka_unit_test(a_long_reason_loses_its_middle),
      cmocka_unit_test(a_reason_as_long_as_its_room_is_whole),
      cmocka_unit_test(each_kind_has_its_own_name_and_title),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
