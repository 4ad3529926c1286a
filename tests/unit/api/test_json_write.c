// The JSON writer. Each document is read back.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "api/base/json_write.h"

static char memory[4096];
static struct text text;

static struct text *fresh(void) {
  text = text_over(memory, sizeof memory);
  return &text;
}

static json_t *parse(const char *json) {
  json_error_t error;
  json_t *root = json_loads(json, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
  if (!root) fail_msg("%s: %s", error.text, json);
  return root;
}

// Checks that the text is complete, equals `json`, and is JSON.
static void is(const char *json) {
  assert_true(text_complete(&text));
  assert_string_equal(memory, json);
  assert_int_equal(text.json.depth, 0);
  json_decref(parse(memory));
}

static void commas_stand_between_values(void **state) {
  (void)state;
  json_printf(fresh(), "{}");
  is("{}");
  json_printf(fresh(), "[[] {} [0 1] {a:1 b:[] c:{}} true]");
  is("[[],{},[0,1],{\"a\":1,\"b\":[],\"c\":{}},true]");
  json_printf(fresh(), "{a:{b:{c:1}}d:2}\n");
  is("{\"a\":{\"b\":{\"c\":1}},\"d\":2}\n");
}

static void a_document_may_be_written_in_parts(void **state) {
  (void)state;
  json_printf(fresh(), "{list:[");
  for (int i = 0; i < 3; i++) json_put_integer(&text, i);
  json_printf(&text, "]");
  json_member(&text, "sizes");
  json_put_integers(&text, (const int64_t[]){INT64_MIN, INT64_MAX}, 2);
  json_printf(&text, "none:");
  json_put_integers(&text, NULL, 0);
  json_printf(&text, "}");
  is("{\"list\":[0,1,2],\"sizes\":[-9223372036854775808,9223372036854775807],\"none\":[]}");
}

static void documents_follow_each_other_without_a_comma(void **state) {
  (void)state;
  json_printf(fresh(), "{a:1}\n{b:2}\n");
  json_put_string(&text, "c");
  json_put_integer(&text, 3);
  assert_string_equal(memory, "{\"a\":1}\n{\"b\":2}\n\"c\"3");
}

static const char *volatile nothing;  // NULL; volatile, since the compiler warns of a NULL that it can see

static void arguments_of_every_kind(void **state) {
  (void)state;
  json_printf(fresh(), "[%s %s %d %ld %lu %lld %llu %zu]", "a", nothing, INT_MIN, (long)INT64_MIN, 18UL, LLONG_MAX,
              19ULL, (size_t)20);
  is("[\"a\",null,-2147483648,-9223372036854775808,18,9223372036854775807,19,20]");
  json_printf(fresh(), "{yes:%i no:%i g:%g zero:%.0f three:%.3f}", true, false, 0.1, 1.5, 12.3456);
  is("{\"yes\":true,\"no\":false,\"g\":0.1,\"zero\":2,\"three\":12.346}");
}

static void names_and_strings_may_be_formatted_in_parts(void **state) {
  (void)state;
  json_printf(fresh(), "{%s:1 %s_us:%d _padding_%d:2 voxels_%s_%s:%s}", "plain", "queue", 5, 7, "a", "b", "c");
  is("{\"plain\":1,\"queue_us\":5,\"_padding_7\":2,\"voxels_a_b\":\"c\"}");
  json_printf(fresh(), "{name:'voxeld' device:'cuda:%d' '# %s':%s refused:'%s%s: \"%s\"' empty:''}", 3, "listen", "doc",
              "newer", "", "a\\b");
  is("{\"name\":\"voxeld\",\"device\":\"cuda:3\",\"# listen\":\"doc\","
     "\"refused\":\"newer: \\\"a\\\\b\\\"\",\"empty\":\"\"}");
}

static void numbers_that_json_cannot_write(void **state) {
  (void)state;
  static const float values[] = {0, -0.0f, 1.5f, NAN, INFINITY, -INFINITY};
  json_printf(fresh(), "[");
  for (size_t i = 0; i < sizeof values / sizeof *values; i++) json_put_float(&text, values[i]);
  json_put_double(&text, 1e20);
  json_put_fixed(&text, -50000, 4);
  json_printf(&text, "]");
  is("[0,-0.0,1.5,null,null,null,1e20,-5.0000]");
}

// ---- strings --------------------------------------------------------------------------------------------------------

static void bytes_that_are_not_utf8_are_replaced(void **state) {
  (void)state;
  static const struct {
    const char *bytes, *json;
  } cases[] = {
      {"", "\"\""},
      {"a\"b\\\n\x1f\x7f", "\"a\\\"b\\\\\\u000a\\u001f\\u007f\""},
      {"\xc3\xa9", "\"\xc3\xa9\""},
      {"\xed\x9f\xbf\xee\x80\x80", "\"\xed\x9f\xbf\xee\x80\x80\""},                  // next to the surrogates
      {"\xf0\x90\x80\x80\xf4\x8f\xbf\xbf", "\"\xf0\x90\x80\x80\xf4\x8f\xbf\xbf\""},  // four bytes: the first, the last
      {"\xc2\x80\xe0\xa0\x80", "\"\xc2\x80\xe0\xa0\x80\""},  // the first of two bytes, the first of three
      {"\xf1\x80\x80\x80", "\"\xf1\x80\x80\x80\""},
      {"\xff", "\"\xef\xbf\xbd\""},
      {"\xc3(", "\"\xef\xbf\xbd(\""},                                                // no continuation byte
      {"\xe0\x9f\xbf", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""},                  // overlong
      {"\xc0\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\""},                                  // overlong
      {"\xed\xa0\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""},                  // surrogate
      {"\xed\xbf\xbf", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""},                  // the last surrogate
      {"\xf4\x90\x80\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""},  // beyond U+10FFFF
      {"\xe2\x82", "\"\xef\xbf\xbd\xef\xbf\xbd\""}};                                 // cut off
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    json_put_string(fresh(), cases[i].bytes);
    is(cases[i].json);
  }
}

static void a_string_holds_all_that_is_appended(void **state) {
  (void)state;
  json_printf(fresh(), "{detail:");
  json_begin_string(&text);
  text_printf(&text, "%d of \"%s\"", 3, "a\xff");
  text_put(&text, "\n");
  json_end(&text);
  json_printf(&text, "}");
  is("{\"detail\":\"3 of \\\"a\xef\xbf\xbd\\\"\\u000a\"}");
}

static void strings_hold_documents(void **state) {
  (void)state;
  json_printf(fresh(), "{outer:");
  json_begin_string(&text);
  json_printf(&text, "{name:%s inner:", "a \"b\"\\");
  json_begin_string(&text);
  json_printf(&text, "{list:[1 %s]}", "\"\n");
  json_end(&text);
  json_printf(&text, "}");
  json_end(&text);
  json_printf(&text, "next:1}");
  assert_true(text_complete(&text));
  json_t *root = parse(memory), *outer = parse(json_string_value(json_object_get(root, "outer")));
  json_t *inner = parse(json_string_value(json_object_get(outer, "inner")));
  assert_int_equal(json_integer_value(json_object_get(root, "next")), 1);
  assert_string_equal(json_string_value(json_object_get(outer, "name")), "a \"b\"\\");
  assert_string_equal(json_string_value(json_array_get(json_object_get(inner, "list"), 1)), "\"\n");
  json_decref(root);
  json_decref(outer);
  json_decref(inner);
}

// Writes a document, `level` strings deep. `part`: its beginning; NULL: writes the beginning too.
static void write_in_strings(int level, const struct text *part, struct text *out) {
  json_printf(out, "[0");
  for (int i = 0; i < level; i++) json_begin_string(out);
  if (part) json_put_part(out, part);
  if (!part) json_printf(out, "{name:%s list:[1 'a\\b'", "a \"b\"\n\xc3\xa4");
  json_printf(out, "2]}");
  for (int i = 0; i < level; i++) json_end(out);
  json_printf(out, "3]");
}

static void a_document_may_begin_with_a_part(void **state) {
  (void)state;
  char begun[256], whole[512], cut[512];
  struct text part = text_over(begun, sizeof begun);
  json_printf(&part, "{name:%s list:[1 'a\\b'", "a \"b\"\n\xc3\xa4");
  for (int level = 0; level <= 2; level++) {
    struct text expected = text_over(whole, sizeof whole);
    write_in_strings(level, NULL, &expected);
    write_in_strings(level, &part, fresh());
    is(whole);
    for (size_t capacity = 0; capacity <= text.length + 1; capacity++) {
      struct text some = text_over(cut, capacity);
      write_in_strings(level, &part, &some);
      assert_int_equal(some.length, expected.length);
      assert_int_equal(text_complete(&some), capacity == text.length + 1);
      if (capacity) assert_memory_equal(cut, whole, capacity - 1);
      if (capacity) assert_int_equal(strlen(cut), capacity - 1);
    }
  }
  part.cut = true;
  write_in_strings(0, &part, fresh());
  assert_false(text_complete(&text));
}

// ---- lengths --------------------------------------------------------------------------------------------------------

static void write_sample(struct text *out) {
  json_printf(out, "{%s_us:%ld list:[", "queue", 17L);
  for (int i = 0; i < 3; i++) json_put_float(out, (float)i / 3);
  json_printf(out, "] text:");
  json_begin_string(out);
  json_printf(out, "{quoted:%s '# %s':%i}", "\"\xff\n", "x", true);
  text_printf(out, " %d", 5);
  json_end(out);
  json_printf(out, "}\n");
}

static void measuring_and_writing_agree(void **state) {
  (void)state;
  struct text measure = text_over(NULL, 0);
  write_sample(&measure);
  write_sample(fresh());
  assert_int_equal(measure.length, text.length);
  assert_int_equal(strlen(memory), text.length);
  for (size_t capacity = 1; capacity <= text.length + 1; capacity++) {
    char part[512];
    struct text cut = text_over(part, capacity);
    write_sample(&cut);
    assert_int_equal(cut.length, text.length);
    assert_int_equal(text_complete(&cut), capacity == text.length + 1);
    assert_int_equal(strlen(part), capacity - 1);
    assert_memory_equal(part, memory, capacity - 1);
  }
}

static void a_text_that_lacks_a_piece_is_not_complete(void **state) {
  (void)state;
  json_begin_string(fresh());
  text_printf(&text, "%511d", 7);
  assert_true(text_complete(&text));
  text_printf(&text, "%512d", 7);
  assert_false(text_complete(&text));
  for (int depth = JSON_DEPTH; depth <= JSON_DEPTH + 1; depth++) {
    fresh();
    for (int i = 0; i < depth; i++) json_printf(&text, "[");
    for (int i = 0; i < depth; i++) json_printf(&text, "]");
    assert_int_equal(text_complete(&text), depth == JSON_DEPTH);
  }
}

static void lines_are_for_readers(void **state) {
  (void)state;
  fresh()->json.lines = 2;
  json_printf(&text, "{rows:[{name:%s n:1} {name:%s}] none:[] deep:{a:{b:1}}}\n", "a", "b");
  is("{\n  \"rows\": [\n    {\"name\":\"a\",\"n\":1},\n    {\"name\":\"b\"}\n  ],\n  \"none\": [],\n"
     "  \"deep\": {\n    \"a\": {\"b\":1}\n  }\n}\n");
  fresh()->json.lines = 1;
  json_printf(&text, "{'# a':%s a:[1 2]}", "doc");
  is("{\n  \"# a\": \"doc\",\n  \"a\": [1,2]\n}");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(commas_stand_between_values),
      cmocka_unit_test(a_document_may_be_written_in_parts),
      cmocka_unit_test(documents_follow_each_other_without_a_comma),
      cmocka_unit_test(arguments_of_every_kind),
      cmocka_unit_test(names_and_strings_may_be_formatted_in_parts),
      cmocka_unit_test(numbers_that_json_cannot_write),
      cmocka_unit_test(bytes_that_are_not_utf8_are_replaced),
      cmocka_unit_test(a_string_holds_all_that_is_appended),
      cmocka_unit_test(strings_hold_documents),
      cmocka_unit_test(a_document_may_begin_with_a_part),
      cmocka_unit_test(measuring_and_writing_agree),
      cmocka_unit_test(a_text_that_lacks_a_piece_is_not_complete),
      cmocka_unit_test(lines_are_for_readers),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
