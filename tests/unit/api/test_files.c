// Answers as files: the kind that Accept chooses, and zip archives with 64-bit sizes, of which only the ends are
// written.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <string.h>

#include "api/wire/answers.h"
#include "api/wire/zip.h"

static void accept_chooses(void **state) {
  (void)state;
  static const char safetensors[] = "application/vnd.safetensors", json[] = "application/json",
                    npz[] = "application/x-npz", mcap[] = "application/x-mcap",
                    shuffled[] = "application/x-shuffled-safetensors";
  const char *const rows[][2] = {
      {NULL, safetensors},
      {"", safetensors},
      {"*/*", safetensors},
      {"text/html", safetensors},
      {"application/*", safetensors},
      {npz, npz},
      {mcap, mcap},
      {shuffled, shuffled},
      {"application/x-shuffled-safetensors, application/vnd.safetensors;q=0.9", shuffled},
      {"application/x-shuffled-safetensors, application/vnd.safetensors", safetensors},
      {"application/x-npz, */*;q=0.9", npz},
      {"application/x-mcap, application/x-npz;q=0.9", mcap},
      {"application/x-mcap;q=0.8, application/x-npz;q=0.9", npz},
      {"application/x-npz, application/octet-stream", safetensors},
      {"application/x-npz, application/json", json},
      {"application/x-npz;q=0, application/json;q=0, application/x-mcap;q=0", safetensors},
      {"application/x-npz, application/problem+json", npz},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    assert_string_equal(answer_kind_of(rows[i][0])->media_type, rows[i][1]);
}

// Writes the end of an archive whose only member is missing.
static struct text end_of(size_t bytes, size_t header, char *memory, size_t capacity) {
  struct text out = text_over(memory, capacity);
  struct zip zip;
  zip_begin(&zip, &out, NULL);
  zip.members[zip.count++] = (struct zip_member){.name = "a", .header = header, .bytes = bytes};
  zip_end(&zip);
  assert_true(text_complete(&out));
  return out;
}

static uint64_t number_at(const char *data, int bytes) {
  uint64_t number = 0;
  for (int i = bytes - 1; i >= 0; i--) number = number << 8 | (unsigned char)data[i];
  return number;
}

static void large_sizes_are_in_the_64_bit_field(void **state) {
  (void)state;
  const size_t limit = 0xffffffff, large = (size_t)5 << 30;
  const struct {
    size_t bytes, header;
    int extra;
  } rows[] = {{9, 9, 0}, {limit - 1, limit - 1, 0}, {limit, 9, 16}, {large, 9, 16}, {9, large, 8}, {large, large, 24}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char memory[256];
    struct text end = end_of(rows[i].bytes, rows[i].header, memory, sizeof memory);
    int extra = rows[i].extra;
    assert_int_equal(end.length, 46 + 1 + (extra ? 4 + extra : 0) + 22);
    assert_int_equal(number_at(memory + 24, 4), rows[i].bytes < limit ? rows[i].bytes : limit);
    assert_int_equal(number_at(memory + 42, 4), rows[i].header < limit ? rows[i].header : limit);
    assert_int_equal(number_at(memory + 30, 2), extra ? 4 + extra : 0);
    if (!extra) continue;
    const char *field = memory + 47;
    assert_int_equal(number_at(field, 4), 1 | extra << 16);
    if (extra >= 16) assert_int_equal(number_at(field + 4, 8), rows[i].bytes);
    if (extra >= 16) assert_int_equal(number_at(field + 12, 8), rows[i].bytes);
    if (rows[i].header >= limit) assert_int_equal(number_at(field + extra - 4, 8), rows[i].header);
  }
}

// The archive is only measured.
static void an_archive_beyond_4_gib_ends_with_a_locator(void **state) {
  (void)state;
  size_t ends[2];
  for (int far = 0; far < 2; far++) {
    struct text out = {.length = far ? (size_t)5 << 30 : 0};
    struct zip zip;
    zip_begin(&zip, &out, NULL);
    size_t begin = out.length;
    zip_end(&zip);
    ends[far] = out.length - begin;
  }
  assert_int_equal(ends[0], 22);
  assert_int_equal(ends[1], 56 + 20 + 22);
}

static void members_begin_aligned(void **state) {
  (void)state;
  static char memory[8192];
  struct text out = text_over(memory, sizeof memory);
  struct zip zip;
  zip_begin(&zip, &out, NULL);
  for (int i = 0; i < 8; i++) {
    static const char names[] = "abcdefgh";
    zip_open(&zip, names + i, ".bin");
    assert_int_equal(out.length % ZIP_ALIGNMENT, 0);
    for (int k = 0; k < i * 13; k++) text_put(&out, "x");
    zip_close(&zip);
    assert_int_equal(zip.members[i].bytes, i * 13);
  }
  zip_end(&zip);
  assert_true(text_complete(&out));
}

// An archive with a truncated name must not count as complete.
static void a_name_that_is_too_long_cuts_the_archive(void **state) {
  (void)state;
  static const char name[] = "012345678901234567890123456789012345678901234";
  for (size_t more = 0; more < 2; more++) {
    char memory[1024];
    struct text out = text_over(memory, sizeof memory);
    struct zip zip;
    zip_begin(&zip, &out, NULL);
    zip_open(&zip, name + 1 - more, ".py");
    zip_close(&zip);
    zip_end(&zip);
    assert_int_equal(text_complete(&out), !more);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(accept_chooses),
      cmocka_unit_test(large_sizes_are_in_the_64_bit_field),
      cmocka_unit_test(an_archive_beyond_4_gib_ends_with_a_locator),
      cmocka_unit_test(members_begin_aligned),
      cmocka_unit_test(a_name_that_is_too_long_cuts_the_archive),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
