// Codings: however a body is cut, it decodes to the same bytes or has the same fault.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

#include "api/wire/coding.h"
#include "api/wire/decode.h"
#include "api/wire/encode.h"

enum { PLAIN = 3000, CODED = 1 << 14, MB = 1 << 20 };

static char plain[PLAIN];
static char decoded[4 * PLAIN];

static int make_plain(void **state) {
  (void)state;
  uint32_t random = 1;
  for (size_t i = 0; i < PLAIN; i++) {
    random = random * 1664525 + 1013904223;
    plain[i] = (char)(i % 16 < 8 ? random >> 24 : i / 100);
  }
  return 0;
}

static bool never(void *cls) {
  (void)cls;
  return false;
}

static bool always(void *cls) {
  (void)cls;
  return true;
}

static size_t zlib_wrapped(const char *data, size_t size, char *out) {
  uLongf length = CODED;
  assert_int_equal(compress2((Bytef *)out, &length, (const Bytef *)data, size, 6), Z_OK);
  return length;
}

static size_t coded_as(enum coding coding, const char *data, size_t size, char *out) {
  if (coding == CODING_DEFLATE) return zlib_wrapped(data, size, out);
  struct encoder *encoder = encoder_new(coding);
  assert_non_null(encoder);
  size_t length = encoder_run(encoder, (struct coding_step){data, size, out, CODED}, never, NULL);
  encoder_close(encoder);
  assert_true(length > 0);
  return length;
}

// Decodes one piece through a buffer of `room` bytes. False with an error.
static bool feed(struct decoder *decoder, const char *data, size_t size, size_t room, size_t *length,
                 struct error *error) {
  struct coding_step step = {.in = data, .in_size = size};
  do {
    step.out = decoded + *length;
    step.out_size = room;
    assert_true(*length + room <= sizeof decoded);
    if (!decoder_run(decoder, &step, error)) return false;
    *length = (size_t)(step.out - decoded);
  } while (step.out_size == 0);
  assert_int_equal(step.in_size, 0);
  return true;
}

// Decodes two pieces that meet at `split`. False with an error.
static bool decode(struct decoder *decoder, const char *data, size_t size, size_t split, size_t room, size_t *length,
                   struct error *error) {
  *length = 0;
  decoder_begin(decoder);
  return feed(decoder, data, split, room, length, error) &&
         feed(decoder, data + split, size - split, room, length, error) && decoder_end(decoder, error);
}

static void decodes_at_every_split(enum coding coding, const char *data, size_t size, size_t copies) {
  struct decoder *decoder = decoder_new(coding);
  struct error error;
  size_t length;
  assert_non_null(decoder);
  for (size_t split = 0; split <= size; split++) {
    if (!decode(decoder, data, size, split, 1 + split % 700, &length, &error))
      fail_msg("%s, split at %zu: %s", coding_name(coding), split, error.text);
    assert_int_equal(length, copies * PLAIN);
    for (size_t i = 0; i < copies; i++) assert_memory_equal(decoded + i * PLAIN, plain, PLAIN);
  }
  decoder_close(decoder);
}

static void refuses_at_every_split(enum coding coding, const char *data, size_t size, const char *says) {
  struct decoder *decoder = decoder_new(coding);
  assert_non_null(decoder);
  for (size_t split = 0; split <= size; split++) {
    struct error error = {.kind = ERROR_NONE};
    size_t length;
    assert_false(decode(decoder, data, size, split, 100, &length, &error));
    assert_int_equal(error.kind, ERROR_BAD_BODY);
    if (!strstr(error.text, says)) fail_msg("%s, split at %zu: %s", coding_name(coding), split, error.text);
  }
  decoder_close(decoder);
}

// ---- good bodies ----------------------------------------------------------------------------------------------------

static void every_split(void **state) {
  (void)state;
  static char data[CODED];
  for (enum coding coding = CODING_GZIP; coding < CODINGS; coding++)
    decodes_at_every_split(coding, data, coded_as(coding, plain, PLAIN, data), 1);
}

static void several_members_in_a_row(void **state) {
  (void)state;
  static char data[3 * CODED];
  static const char skipped[] = "\x5f\x2a\x4d\x18\x03\0\0\0abc", none[] = "\x50\x2a\x4d\x18\0\0\0";  // skippable frames
  size_t size = coded_as(CODING_GZIP, plain, PLAIN, data);
  size += coded_as(CODING_GZIP, "", 0, data + size);
  size += coded_as(CODING_GZIP, plain, PLAIN, data + size);
  decodes_at_every_split(CODING_GZIP, data, size, 2);
  memcpy(data, skipped, sizeof skipped - 1);
  size = sizeof skipped - 1;
  size += coded_as(CODING_ZSTD, plain, PLAIN, data + size);
  memcpy(data + size, none, sizeof none);
  size += sizeof none;
  size += coded_as(CODING_ZSTD, plain, PLAIN, data + size);
  decodes_at_every_split(CODING_ZSTD, data, size, 2);
}

// Two frames whose heads have the length.
static size_t two_frames(char *out) {
  size_t size = ZSTD_compress(out, CODED, plain, PLAIN, 1);
  size += ZSTD_compress(out + size, CODED, plain, PLAIN, 1);
  assert_in_range(size, 1, CODED);
  return size;
}

static void frames_that_say_their_length(void **state) {
  (void)state;
  static char data[2 * CODED];
  size_t size = two_frames(data), length;
  decodes_at_every_split(CODING_ZSTD, data, size, 2);
  for (size_t split = 0; split <= size; split++) {
    struct decoder *decoder = decoder_new(CODING_ZSTD);
    struct error error;
    size_t unused = decoder_bytes(decoder);
    assert_true(decode(decoder, data, size, split, 2 * PLAIN, &length, &error));
    assert_int_equal(length, 2 * PLAIN);
    assert_memory_equal(decoded, plain, PLAIN);
    assert_memory_equal(decoded + PLAIN, plain, PLAIN);
    // Only a frame that comes in two pieces needs a window.
    bool whole = split % size == 0 || split == size / 2;
    if (whole != (decoder_bytes(decoder) == unused)) fail_msg("split at %zu of %zu", split, size);
    decoder_close(decoder);
  }
}

static void the_room_for_a_body(void **state) {
  (void)state;
  static char data[2 * CODED], zeros[MB];
  size_t size = two_frames(data);
  assert_int_equal(coding_first_room(CODING_ZSTD, data, size), 2 * PLAIN + 1);
  assert_int_equal(coding_first_room(CODING_ZSTD, data, size - 1), 2 * (size - 1));
  memcpy(data + size, "more", 5);
  assert_int_equal(coding_first_room(CODING_ZSTD, data, size + 4), 2 * (size + 4));
  for (enum coding coding = CODING_GZIP; coding < CODING_ZSTD; coding++) {
    size = coded_as(coding, plain, PLAIN, data);
    assert_int_equal(coding_first_room(coding, data, size), 2 * size);
  }
  size = ZSTD_compress(data, CODED, zeros, MB, 1);
  assert_int_equal(coding_first_room(CODING_ZSTD, data, size), 2 * size);
  // A frame whose head has the length 2^64 - 3.
  static const char huge[] = "\x28\xb5\x2f\xfd\xe0\xfd\xff\xff\xff\xff\xff\xff\xff\x09\0\0x";
  assert_int_equal(coding_first_room(CODING_ZSTD, huge, sizeof huge - 1), 2 * (sizeof huge - 1));
}

static void a_bomb_fills_only_the_room_given(void **state) {
  (void)state;
  static char data[CODED], zeros[8 * MB];
  for (enum coding coding = CODING_GZIP; coding < CODINGS; coding++) {
    size_t size = coded_as(coding, zeros, coding == CODING_ZSTD ? 8 * MB : MB, data);
    struct decoder *decoder = decoder_new(coding);
    struct error error;
    decoder_begin(decoder);
    struct coding_step step = {data, size, decoded, 1000};
    assert_true(decoder_run(decoder, &step, &error));
    assert_int_equal(step.out_size, 0);
    assert_ptr_equal(step.out, decoded + 1000);
    assert_true(decoder_bytes(decoder) < (size_t)10 * MB);
    decoder_close(decoder);
  }
}

// ---- bad bodies -----------------------------------------------------------------------------------------------------

static void truncated(void **state) {
  (void)state;
  static char data[CODED];
  for (enum coding coding = CODING_GZIP; coding < CODINGS; coding++) {
    size_t size = coded_as(coding, plain, 100, data);
    struct decoder *decoder = decoder_new(coding);
    for (size_t come = 0; come < size; come++) {
      struct error error = {.kind = ERROR_NONE};
      size_t length;
      assert_false(decode(decoder, data, come, come / 2, 100, &length, &error));
      assert_int_equal(error.kind, ERROR_BAD_BODY);
      assert_non_null(strstr(error.text, "the body ends before its"));
    }
    decoder_close(decoder);
  }
}

static void trailing_bytes(void **state) {
  (void)state;
  static char data[CODED];
  for (enum coding coding = CODING_GZIP; coding < CODINGS; coding++) {
    size_t size = coded_as(coding, plain, 100, data);
    memcpy(data + size, "more", 5);
    refuses_at_every_split(coding, data, size + 4, "continues after the end");
  }
}

static void other_data(void **state) {
  (void)state;
  static char data[CODED];
  refuses_at_every_split(CODING_GZIP, "raw rows", 8, "malformed");
  refuses_at_every_split(CODING_DEFLATE, "raw rows", 8, "malformed");
  refuses_at_every_split(CODING_ZSTD, "raw rows", 8, "malformed");
  refuses_at_every_split(CODING_ZSTD, "\x27\xb5\x2f\xfd old", 8, "malformed");  // zstd 0.7
  for (enum coding coding = CODING_GZIP; coding < CODING_ZSTD; coding++) {
    size_t size = coded_as(coding, plain, 100, data);
    data[size - 1] ^= 1;  // a byte of the checksum or the length
    refuses_at_every_split(coding, data, size, "malformed");
  }
}

// A length in the head that is one too small or too large.
static void a_false_length(void **state) {
  (void)state;
  static char data[2 * CODED];
  for (int step = -1; step <= 1; step += 2) {
    size_t size = two_frames(data), length;
    data[5] = (char)(data[5] + step);  // the lower byte of the length
    refuses_at_every_split(CODING_ZSTD, data, size, "malformed");
    struct decoder *decoder = decoder_new(CODING_ZSTD);
    struct error error = {.kind = ERROR_NONE};
    assert_false(decode(decoder, data, size, size, 2 * PLAIN, &length, &error));
    assert_non_null(strstr(error.text, "malformed"));
    decoder_close(decoder);
  }
}

// After its magic number, this frame looks like one of zstd 0.7.
static void a_frame_of_an_older_format_within_a_head(void **state) {
  (void)state;
  static const char frame[] = "\x28\xb5\x2f\xfd\x27\xb5\x2f\xfd\x84\x29\xd2\x58\x9b\x28\xff\x23\x01";
  refuses_at_every_split(CODING_ZSTD, frame, sizeof frame - 1, "malformed");
}

static void a_large_window(void **state) {
  (void)state;
  for (int log = DECODE_WINDOW_LOG; log <= DECODE_WINDOW_LOG + 1; log++) {
    // A frame without a length: its window, and a last block of one raw byte.
    char data[] = "\x28\xb5\x2f\xfd\0?\x09\0\0x";
    data[5] = (char)((log - 10) << 3);
    if (log > DECODE_WINDOW_LOG) {
      refuses_at_every_split(CODING_ZSTD, data, sizeof data - 1, "window over 8 MiB");
      continue;
    }
    struct decoder *decoder = decoder_new(CODING_ZSTD);
    struct error error;
    size_t length;
    assert_true(decode(decoder, data, sizeof data - 1, 3, 10, &length, &error));
    assert_int_equal(length, 1);
    assert_true(decoder_bytes(decoder) > (size_t)8 * MB && decoder_bytes(decoder) < (size_t)10 * MB);
    decoder_close(decoder);
  }
}

// ---- answers and names ----------------------------------------------------------------------------------------------

static void an_answer_that_does_not_fit_is_not_encoded(void **state) {
  (void)state;
  static char data[CODED];
  for (enum coding coding = CODING_GZIP; coding < CODINGS; coding++) {
    if (coding == CODING_DEFLATE) continue;
    size_t size = coded_as(coding, plain, PLAIN, data);
    struct encoder *encoder = encoder_new(coding);
    for (size_t room = 0; room < size; room += 1 + room / 2)
      assert_int_equal(encoder_run(encoder, (struct coding_step){plain, PLAIN, data, room}, never, NULL), 0);
    assert_int_equal(encoder_run(encoder, (struct coding_step){plain, PLAIN, data, size}, always, NULL), 0);
    assert_int_equal(encoder_run(encoder, (struct coding_step){plain, PLAIN, data, size}, never, NULL), size);
    encoder_close(encoder);
    decodes_at_every_split(coding, data, size, 1);
  }
}

static void names(void **state) {
  (void)state;
  static const struct {
    const char *name;
    enum coding coding;
  } rows[] = {{"gzip", CODING_GZIP},       {"GZip", CODING_GZIP}, {"x-gzip", CODING_GZIP}, {"deflate", CODING_DEFLATE},
              {"zstd", CODING_ZSTD},       {"", CODINGS},         {"br", CODINGS},         {"identity", CODING_NONE},
              {"gzip, zstd", CODINGS},     {"gzip,", CODINGS},    {"gzip;q=1", CODINGS},   {"x-zstd", CODINGS},
              {"identity, gzip", CODINGS}, {"compress", CODINGS}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (coding_of_body(rows[i].name) != rows[i].coding) fail_msg("%s", rows[i].name);
}

static void what_a_client_prefers(void **state) {
  (void)state;
  static const struct {
    const char *accept;
    enum coding coding;
  } rows[] = {{"", CODING_NONE},
              {"gzip", CODING_GZIP},
              {"zstd", CODING_ZSTD},
              {"gzip, zstd", CODING_ZSTD},
              {"gzip, deflate, br", CODING_GZIP},
              {"deflate, br", CODING_NONE},
              {"gzip;q=1, zstd;q=0.5", CODING_GZIP},
              {"gzip;q=0", CODING_NONE},
              {"gzip;q=0, zstd", CODING_ZSTD},
              {"identity", CODING_NONE},
              {"identity, gzip", CODING_NONE},
              {"identity;q=0.5, gzip", CODING_GZIP},
              {"identity;q=0, gzip;q=0", CODING_NONE},
              {"gzip;q=0.5, identity;q=0.6", CODING_NONE},
              {"*", CODING_NONE},
              {"*, identity;q=0.9", CODING_ZSTD},
              {"*;q=0, gzip;q=0.1", CODING_GZIP},
              {"zstd;q=0, *, identity;q=0", CODING_GZIP},
              {"gzip;q=2", CODING_NONE},
              {"GZIP ; q=0.001", CODING_GZIP}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (coding_for_answer(rows[i].accept, false) != rows[i].coding) fail_msg("%s", rows[i].accept);
}

static void answers_of_clients_whose_library_offers_zstd(void **state) {
  (void)state;
  static const struct {
    const char *accept;
    enum coding coding;
  } rows[] = {{"gzip, deflate, br, zstd", CODING_GZIP},
              {"deflate, zstd", CODING_NONE},
              {"zstd, gzip;q=0.1", CODING_GZIP},
              {"*, identity;q=0.5", CODING_GZIP},
              {"zstd", CODING_ZSTD},
              {"gzip;q=0, zstd", CODING_ZSTD},
              {"gzip", CODING_GZIP},
              {"", CODING_NONE}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (coding_for_answer(rows[i].accept, true) != rows[i].coding) fail_msg("%s", rows[i].accept);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_split),
      cmocka_unit_test(several_members_in_a_row),
      cmocka_unit_test(frames_that_say_their_length),
      cmocka_unit_test(the_room_for_a_body),
      cmocka_unit_test(a_bomb_fills_only_the_room_given),
      cmocka_unit_test(truncated),
      cmocka_unit_test(trailing_bytes),
      cmocka_unit_test(other_data),
      cmocka_unit_test(a_false_length),
      cmocka_unit_test(a_frame_of_an_older_format_within_a_head),
      cmocka_unit_test(a_large_window),
      cmocka_unit_test(an_answer_that_does_not_fit_is_not_encoded),
      cmocka_unit_test(names),
      cmocka_unit_test(what_a_client_prefers),
      cmocka_unit_test(answers_of_clients_whose_library_offers_zstd),
  };
  return cmocka_run_group_tests(tests, make_plain, NULL);
}
