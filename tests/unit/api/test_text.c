// The bounded text builder: measuring, numbers.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/base/text.h"

static void overflow_is_seen_and_bounded(void **state) {
  (void)state;
  char memory[8];
  memset(memory, '#', sizeof memory);
  struct text text = text_over(memory, 5);
  text_put(&text, "123456789");
  assert_false(text_complete(&text));
  assert_int_equal(text.length, 9);
  assert_string_equal(memory, "1234");
  assert_int_equal(memory[5], '#');
}

static void a_long_piece_is_whole(void **state) {
  (void)state;
  for (int length = 511; length <= 1030; length++) {
    char memory[1024];
    struct text text = text_over(memory, sizeof memory), measure = text_over(NULL, 0);
    text_printf(&text, "%*d", length, 7);
    text_printf(&measure, "%*d", length, 7);
    text_put(&text, "|");
    assert_int_equal(measure.length, length);
    assert_int_equal(text.length, length + 1);
    assert_int_equal(text_complete(&text), length < 1023);
    assert_int_equal(strlen(memory), length < 1023 ? length + 1 : 1023);
    if (length < 1023) assert_string_equal(memory + length - 1, "7|");
  }
}

static void floats_read_back_in_few_digits(void **state) {
  (void)state;
  static const struct {
    float value;
    const char *digits;
  } cases[] = {{0.05f, "0.05"},   {-39.68f, "-39.68"},
               {70.4f, "70.4"},   {0.075f, "0.075"},
               {1e30f, "1e30"},   {16777217.0f, "16777216"},
               {1e6f, "1e6"},     {-1e20f, "-1e20"},
               {1e-20f, "1e-20"}, {3.40282347e38f, "3.4028235e38"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char memory[64];
    struct text text = text_over(memory, sizeof memory);
    text_float(&text, cases[i].value);
    assert_true((float)strtod(memory, NULL) == cases[i].value);
    assert_string_equal(memory, cases[i].digits);
  }
}

// The fewest digits that read back as the same value.
static void shortest_digits(float value, char digits[64]) {
  for (int precision = 6; precision <= 9; precision++) {
    snprintf(digits, 64, "%.*g", precision, (double)value);
    if ((float)strtod(digits, NULL) == value) break;
  }
  char *plus = strchr(digits, '+');
  if (!plus) return;
  const char *exponent = plus + strspn(plus, "+0");
  memmove(plus, exponent, strlen(exponent) + 1);
}

static void assert_shortest(float value) {
  char memory[64], expected[64];
  struct text text = text_over(memory, sizeof memory);
  text_float(&text, value);
  shortest_digits(value, expected);
  assert_string_equal(memory, expected);
}

// text_float writes a range of floats without printf. Floats in and around this range, and random bits.
static void floats_are_as_printf_has_them(void **state) {
  (void)state;
  static const float steps[] = {1e-5f, 1e-4f, 0.001f, 0.05f, 1, 7, 999, 12345};
  for (size_t step = 0; step < sizeof steps / sizeof *steps; step++)
    for (int i = -300; i <= 300; i++) {
      float value = (float)((double)steps[step] * i);
      assert_shortest(value);
      assert_shortest(nextafterf(value, INFINITY));
    }
  static const float edges[] = {0.0f, -0.0f, 99.9999f, 100.0f, 999999.0f, 999999.5f, 1e6f, 1e9f, -1e10f, INFINITY};
  for (size_t i = 0; i < sizeof edges / sizeof *edges; i++) assert_shortest(edges[i]);
  uint32_t bits = 1;
  for (int i = 0; i < 20000; i++) {
    float value;
    bits = bits * 1664525 + 1013904223;
    memcpy(&value, &bits, sizeof value);
    if (!isnan(value)) assert_shortest(value);
  }
}

static void doubles_read_back_in_few_digits(void **state) {
  (void)state;
  static const struct {
    double value;
    const char *digits;
  } cases[] = {{0, "0"},       {0.1, "0.1"},      {1700000000.25, "1700000000.25"},  {1.0 / 3, "0.3333333333333333"},
               {1e20, "1e20"}, {-1e-7, "-1e-07"}, {0.1 + 0.2, "0.30000000000000004"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char memory[64];
    struct text text = text_over(memory, sizeof memory);
    text_double(&text, cases[i].value);
    assert_true(strtod(memory, NULL) == cases[i].value);
    assert_string_equal(memory, cases[i].digits);
  }
}

static void numbers_of_fixed_decimals(void **state) {
  (void)state;
  static const struct {
    int64_t units;
    int decimals;
    const char *digits;
  } cases[] = {{0, 0, "0"},
               {7, 0, "7"},
               {-1234567890, 0, "-1234567890"},
               {0, 1, "0.0"},
               {5, 1, "0.5"},
               {123, 4, "0.0123"},
               {-50000, 4, "-5.0000"},
               {INT64_MAX, 0, "9223372036854775807"},
               {INT64_MIN, 1, "-922337203685477580.8"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char memory[64];
    struct text text = text_over(memory, sizeof memory);
    text_fixed(&text, cases[i].units, cases[i].decimals);
    assert_string_equal(memory, cases[i].digits);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(overflow_is_seen_and_bounded),    cmocka_unit_test(a_long_piece_is_whole),
      cmocka_unit_test(floats_read_back_in_few_digits),  cmocka_unit_test(floats_are_as_printf_has_them),
      cmocka_unit_test(doubles_read_back_in_few_digits), cmocka_unit_test(numbers_of_fixed_decimals),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
