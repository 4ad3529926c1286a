// JSON documents: json_cost suffices for the worst documents, and bad documents are refused.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/base/json.h"

static struct json_document document;
static json_error_t where;

static bool open_text(const char *text) { return json_open(&document, text, strlen(text), &where); }

// `count` copies of `unit`, separated by commas. %x in the unit becomes the copy's number, so that keys differ.
static char *many(const char *open, const char *unit, const char *close, int count) {
  size_t size = strlen(open) + strlen(close) + (size_t)count * (strlen(unit) + 9) + 1, length;
  char *text = malloc(size), *number = strstr(unit, "%x");
  assert_non_null(text);
  length = (size_t)snprintf(text, size, "%s", open);
  for (int i = 0; i < count; i++) {
    int before = number ? (int)(number - unit) : (int)strlen(unit);
    length += (size_t)snprintf(text + length, size - length, "%s%.*s", i ? "," : "", before, unit);
    if (number) length += (size_t)snprintf(text + length, size - length, "%x%s", (unsigned)i, number + 2);
  }
  snprintf(text + length, size - length, "%s", close);
  return text;
}

// jansson doubles full tables, so the worst counts are a power of two + 1.
static const int counts[] = {0, 1, 2, 8, 9, 10, 100, 1024, 1025, 4096, 4097, 65537};

static void the_cost_is_enough(void **state) {
  (void)state;
  static const char *const units[] = {"{}",
                                      "[]",
                                      "1",
                                      "1.5",
                                      "\"\"",
                                      "\"a\"",
                                      "true",
                                      "null",
                                      "[[]]",
                                      "[1]",
                                      "{\"\":{}}",
                                      "{\"a\":1}",
                                      "\"\\u00e9\"",
                                      "\"fifteen bytes..\"",
                                      "[1,1,1,1,1,1,1,1,1]",
                                      "{\"a\":[{\"b\":\"c\"}]}",
                                      "{\"a\":1,\"b\":1,\"c\":1,\"d\":1,\"e\":1,\"f\":1,\"g\":1,\"h\":1,\"i\":1}"};
  static const char *const members[] = {"\"%x\":1", "\"%x\":{}", "\"%x\":null", "\"%x\":\"\"", "\"%x\":[\"\"]"};
  for (size_t n = 0; n < sizeof counts / sizeof *counts; n++) {
    for (size_t i = 0; i < sizeof units / sizeof *units + sizeof members / sizeof *members; i++) {
      bool list = i < sizeof units / sizeof *units;
      const char *unit = list ? units[i] : members[i - sizeof units / sizeof *units];
      char *text = many(list ? "[" : "{", unit, list ? "]" : "}", counts[n]);
      if (!open_text(text)) fail_msg("%d times %s: %s", counts[n], unit, where.text);
      assert_true(document.used <= document.size);
      json_close(&document);
      free(text);
    }
  }
}

static void the_cost_is_enough_for_one_large_text(void **state) {
  (void)state;
  static const char *const around[][2] = {{"[\"", "\"]"}, {"{\"", "\":1}"}, {"{\"a\":\"", "\"}"}, {"[0.", "]"}};
  for (size_t i = 0; i < sizeof around / sizeof *around; i++) {
    for (int length = 1; length < 300000; length = length * 3 / 2 + 1) {
      size_t begin = strlen(around[i][0]);
      char *text = malloc(begin + (size_t)length + 8);
      assert_non_null(text);
      strcpy(text, around[i][0]);
      memset(text + begin, '0', (size_t)length);
      strcpy(text + begin + length, around[i][1]);
      if (!open_text(text)) fail_msg("%d bytes between %s and %s: %s", length, around[i][0], around[i][1], where.text);
      json_close(&document);
      free(text);
    }
  }
}

static void documents_are_independent(void **state) {
  (void)state;
  struct json_document first, second;
  assert_true(json_open(&first, "{\"a\":[1,\"b\"]}", 13, &where) && json_open(&second, "{\"a\":2}", 7, &where));
  assert_int_equal(json_integer_value(json_object_get(second.root, "a")), 2);
  json_close(&second);
  assert_string_equal(json_string_value(json_array_get(json_object_get(first.root, "a"), 1)), "b");
  json_close(&first);
  json_close(&first);
  assert_null(first.root);
}

static void text_that_is_not_json_is_refused(void **state) {
  (void)state;
  struct error error = {.kind = ERROR_NONE};
  assert_false(open_text("{\"a\":1,\n\"a\":2}"));
  assert_int_equal(where.line, 2);
  assert_null(document.memory);
  assert_false(open_text("") || open_text("[1,2") || open_text("nul"));
  assert_false(json_open_sent(&document, "the body's JSON", "[1,", 3, NULL, &error));
  assert_int_equal(error.kind, ERROR_BAD_BODY);
  assert_non_null(strstr(error.text, "the body's JSON, line 1, column 3: "));
  assert_null(document.memory);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_cost_is_enough),
      cmocka_unit_test(the_cost_is_enough_for_one_large_text),
      cmocka_unit_test(documents_are_independent),
      cmocka_unit_test(text_that_is_not_json_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
