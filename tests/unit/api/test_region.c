// Regions of shared memory as clients name and register them.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "api/wire/region.h"

static const struct param param = {.name = "region", .type = &value_region};

static bool read(const char *text, struct region_ref *ref) { return param_read(&param, text, strlen(text), ref); }

static void parts_are_read_from_the_end(void **state) {
  (void)state;
  static const struct {
    const char *text, *name;
    uint64_t offset, bytes;
  } good[] = {{"a,0,0", "a", 0, 0},
              {"scan,64,1776000", "scan", 64, 1776000},
              {"a,b,1,2", "a,b", 1, 2},
              {"1,2,3", "1", 2, 3},
              {"a,999999999999999999,999999999999999999", "a", 999999999999999999, 999999999999999999}};
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    struct region_ref ref;
    assert_true(read(good[i].text, &ref));
    assert_string_equal(ref.name, good[i].name);
    assert_true(ref.offset == good[i].offset && ref.bytes == good[i].bytes);
  }
}

static void others_are_refused(void **state) {
  (void)state;
  static const char *const bad[] = {
      "",        "a",      "a,1",    "a,1,",    "a,,1", ",1,2",     "a,-1,2",
      "a,1,0x2", "a,1 ,2", "a,+1,2", "a,1.0,2", ",,",   "\x01,1,2", "a,1,1000000000000000000",
      "a\n,1,2"};
  struct region_ref ref;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) assert_false(read(bad[i], &ref));
  char longest[REGION_NAME_SIZE + 8];
  snprintf(longest, sizeof longest, "%063d,1,2", 7);
  assert_true(read(longest, &ref));
  snprintf(longest, sizeof longest, "%064d,1,2", 7);
  assert_false(read(longest, &ref));
  assert_false(param_read(&param, "a\0b,1,2", 7, &ref));
}

static void a_part_is_written_as_it_was_read(void **state) {
  (void)state;
  char memory[64];
  struct region_ref ref;
  struct text text = text_over(memory, sizeof memory);
  assert_true(read("a\",64,1776000", &ref));
  value_region.write(&param, &ref, &text);
  assert_string_equal(memory, "\"a\\\",64,1776000\"");
}

static void a_part_lies_in_its_region(void **state) {
  (void)state;
  assert_true(region_holds(10, 0, 10) && region_holds(10, 10, 0) && region_holds(0, 0, 0) && region_holds(10, 3, 7));
  assert_false(region_holds(10, 3, 8) || region_holds(10, 11, 0) || region_holds(10, 0, 11));
  assert_false(region_holds(10, UINT64_MAX, 11) || region_holds(10, 11, UINT64_MAX) ||
               region_holds(10, UINT64_MAX - 1, 2));
}

static bool terms_of(const char *name, const char *json, struct region_terms *terms) {
  struct error error;
  return region_terms_read(REGION_SYSTEM, name, json, strlen(json), terms, &error);
}

static void terms_are_read(void **state) {
  (void)state;
  struct region_terms terms;
  assert_true(terms_of("a", "{\"key\":\"/k\",\"offset\":7,\"byte_size\":9,\"more\":[]}", &terms));
  assert_string_equal(terms.name, "a");
  assert_string_equal(terms.key, "/k");
  assert_true(terms.offset == 7 && terms.bytes == 9);
  assert_true(terms_of("a", "{\"key\":\"k\",\"byte_size\":1}", &terms));
  assert_true(terms.offset == 0 && terms.bytes == 1);
}

static void bad_terms_are_refused(void **state) {
  (void)state;
  static const char *const bad[] = {
      "",
      "[]",
      "7",
      "{\"byte_size\":1}",
      "{\"key\":\"k\"}",
      "{\"key\":7,\"byte_size\":1}",
      "{\"key\":\"\",\"byte_size\":1}",
      "{\"key\":\"k\\u0000x\",\"byte_size\":1}",
      "{\"key\":\"k\",\"byte_size\":0}",
      "{\"key\":\"k\",\"byte_size\":-1}",
      "{\"key\":\"k\",\"byte_size\":1.0}",
      "{\"key\":\"k\",\"byte_size\":\"1\"}",
      "{\"key\":\"k\",\"byte_size\":9223372036854775808}",
      "{\"key\":\"k\",\"byte_size\":1,\"offset\":-1}",
      "{\"key\":\"k\",\"byte_size\":1,\"offset\":null}",
      "{\"key\":\"k\",\"key\":\"k\",\"byte_size\":1}",
  };
  struct region_terms terms;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) assert_false(terms_of("a", bad[i], &terms));
  char json[REGION_KEY_SIZE + 64];
  snprintf(json, sizeof json, "{\"key\":\"%0*d\",\"byte_size\":1}", REGION_KEY_SIZE - 1, 1);
  assert_true(terms_of("a", json, &terms));
  snprintf(json, sizeof json, "{\"key\":\"%0*d\",\"byte_size\":1}", REGION_KEY_SIZE, 1);
  assert_false(terms_of("a", json, &terms));
  assert_false(terms_of("", "{\"key\":\"k\",\"byte_size\":1}", &terms));
  assert_false(terms_of("a\x1f", "{\"key\":\"k\",\"byte_size\":1}", &terms));
}

static bool handle_of(const char *json, struct region_terms *terms) {
  struct error error;
  bool good = region_terms_read(REGION_CUDA, "a", json, strlen(json), terms, &error);
  if (!good) assert_int_equal(error.kind, ERROR_BAD_BODY);
  return good;
}

#define DIGITS "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vMDEyMzQ1Njc4OTo7PD0+P"
#define HANDLE(text) "{\"raw_handle\":{\"b64\":\"" text "\"},\"byte_size\":9"

static void handles_are_read(void **state) {
  (void)state;
  struct region_terms terms;
  static const char *const good[] = {
      DIGITS "w==", DIGITS "w", DIGITS "w==\\n",
      "AAEC \\r\\nAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vMDEyMzQ1Njc4OTo7PD0+Pw=="};
  char json[512], text[512];
  for (size_t g = 0; g < sizeof good / sizeof *good; g++) {
    snprintf(json, sizeof json, HANDLE("%s") ",\"device_id\":3,\"offset\":7}", good[g]);
    assert_true(handle_of(json, &terms));
    for (int i = 0; i < VX_HANDLE_SIZE; i++) assert_int_equal(terms.handle[i], i);
    assert_true(terms.gpu == 3 && terms.offset == 7 && terms.bytes == 9);
  }
  struct text out = text_over(text, sizeof text);
  region_terms_write(&terms, &out);
  assert_string_equal(text, "{\"name\":\"a\",\"device_id\":3,\"byte_size\":9}");
  assert_true(handle_of(HANDLE(DIGITS "w==") "}", &terms) && terms.gpu == 0 && terms.offset == 0);
}

static void bad_handles_are_refused(void **state) {
  (void)state;
  static const char *const bad[] = {
      "{\"byte_size\":9}",
      "{\"raw_handle\":7,\"byte_size\":9}",
      "{\"raw_handle\":\"" DIGITS "w==\",\"byte_size\":9}",
      "{\"raw_handle\":{\"b64\":7},\"byte_size\":9}",
      HANDLE("") "}",
      HANDLE(DIGITS) "}",
      HANDLE(DIGITS "=") "}",
      HANDLE(DIGITS "wA") "}",
      HANDLE(DIGITS "wAA") "}",
      HANDLE(DIGITS "-") "}",
      HANDLE(DIGITS "w=A") "}",
      HANDLE(DIGITS "w==x") "}",
      HANDLE(DIGITS "w==") ",\"device_id\":-1}",
      HANDLE(DIGITS "w==") ",\"device_id\":\"0\"}",
      HANDLE(DIGITS "w==") ",\"offset\":-1}",
      "{\"raw_handle\":{\"b64\":\"" DIGITS "\\u0000w\"},\"byte_size\":9}",
      "{\"raw_handle\":{\"b64\":\"" DIGITS "w==\"}}",
      "{\"key\":\"k\",\"byte_size\":9}",
  };
  struct region_terms terms;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) assert_false(handle_of(bad[i], &terms));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(parts_are_read_from_the_end),
      cmocka_unit_test(others_are_refused),
      cmocka_unit_test(a_part_is_written_as_it_was_read),
      cmocka_unit_test(a_part_lies_in_its_region),
      cmocka_unit_test(terms_are_read),
      cmocka_unit_test(bad_terms_are_refused),
      cmocka_unit_test(handles_are_read),
      cmocka_unit_test(bad_handles_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
