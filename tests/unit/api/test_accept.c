// The header Accept: the q of the most precise matching range decides.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "api/base/accept.h"

struct row {
  const char *accept;
  int quality;  // the quality of application/json
};

static void check(const struct row *rows, size_t count) {
  for (size_t i = 0; i < count; i++) {
    int quality = accept_quality(rows[i].accept, "application/json");
    if (quality != rows[i].quality) fail_msg("%s: %d, not %d", rows[i].accept, quality, rows[i].quality);
  }
}

static void ranges(void **state) {
  (void)state;
  static const struct row rows[] = {
      {"application/json", 1000},
      {"APPLICATION/Json", 1000},
      {"application/*", 1000},
      {"*/*", 1000},
      {" text/html , */* ", 1000},
      {",, ,application/json,", 1000},
      {"", 0},
      {"text/html", 0},
      {"text/*", 0},
      {"application/jsonl", 0},
      {"application/jso", 0},
      {"application", 0},
      {"application/", 0},
      {"xapplication/json", 0},
      {"*", 0},
      {"*/json", 0},
      {"application/json/x", 0},
      {"applications/*", 0},
      {"*/*, text/html", 1000},
      {"application/*x, text/*x", 0},
  };
  check(rows, sizeof rows / sizeof *rows);
}

static void weights(void **state) {
  (void)state;
  static const struct row rows[] = {
      {"application/json;q=0", 0},
      {"application/json;q=0.000", 0},
      {"application/json;q=1.000", 1000},
      {"application/json;q=0.5", 500},
      {"application/json; Q=0.123 ", 123},
      {"application/json ; q=0.25 , text/html", 250},
      {"application/json;q=1.", 1000},
      {"application/json;charset=utf-8", 1000},
      {"application/json;charset=utf-8;q=0.2", 200},
      {"application/json;q=0.2;extension=1", 200},
      {"application/json;p=\"a,b;q=0.9\";q=0.3", 300},
      {"application/json;p=\"a\\\",b\";q=0.3", 300},
      {"application/json;p=\"open,q=0.3", 1000},
  };
  check(rows, sizeof rows / sizeof *rows);
}

static void malformed_weights_cover_nothing(void **state) {
  (void)state;
  static const struct row rows[] = {
      {"application/json;q=", 0},       {"application/json;q=2", 0},   {"application/json;q=1.001", 0},
      {"application/json;q=-1", 0},     {"application/json;q=.5", 0},  {"application/json;q=0.1234", 0},
      {"application/json;q=0.5x", 0},   {"application/json;q=0,5", 0}, {"application/json;q=x, */*;q=0.7", 700},
      {"application/json;q=0.5 .5", 0},
  };
  check(rows, sizeof rows / sizeof *rows);
}

static void most_precise_range_decides(void **state) {
  (void)state;
  static const struct row rows[] = {
      {"*/*, application/json;q=0", 0},
      {"application/json;q=0, */*", 0},
      {"*/*;q=0.1, application/*;q=0.2, application/json;q=0.3", 300},
      {"application/json;q=0.3, application/*;q=0.2, */*;q=0.1", 300},
      {"application/*;q=0.2, */*", 200},
      {"text/html;q=0.9, */*;q=0.1", 100},
  };
  check(rows, sizeof rows / sizeof *rows);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ranges),
      cmocka_unit_test(weights),
      cmocka_unit_test(malformed_weights_cover_nothing),
      cmocka_unit_test(most_precise_range_decides),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
