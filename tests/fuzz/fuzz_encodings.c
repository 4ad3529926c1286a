// Fuzzes the decoders of bodies. With pieces of any size and any room for output, a decoder gives the same bytes or the
// same fault, in less than MOST_BYTES of memory. Encoded bytes decode to the original bytes. One thread.
//
// The input: bytes for the coding, the size of the pieces and the size of the room, then the coded body.
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "api/wire/decode.h"
#include "api/wire/encode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { HEAD = 3, MOST_DECODED = 1 << 18, MOST_BYTES = 10 << 20 };

struct outcome {
  char *bytes;  // [MOST_DECODED]
  size_t length;
  enum error_kind fault;  // ERROR_BODY_TOO_LARGE if the body decodes to MOST_DECODED bytes or more
};

static void decode_piece(struct decoder *decoder, const char *data, size_t size, size_t room, struct outcome *outcome) {
  struct error error;
  struct coding_step step = {.in = data, .in_size = size};
  do {
    size_t left = MOST_DECODED - outcome->length;
    step.out = outcome->bytes + outcome->length;
    step.out_size = room < left ? room : left;
    if (!left) {
      outcome->fault = ERROR_BODY_TOO_LARGE;
      return;
    }
    bool good = decoder_run(decoder, &step, &error);
    outcome->length = (size_t)(step.out - outcome->bytes);
    assert(decoder_bytes(decoder) < MOST_BYTES);
    if (!good) {
      outcome->fault = error.kind;
      return;
    }
  } while (step.out_size == 0);
  assert(step.in_size == 0);
}

static void decode(struct decoder *decoder, const char *data, size_t size, size_t piece, size_t room,
                   struct outcome *outcome) {
  struct error error;
  outcome->length = 0;
  outcome->fault = ERROR_NONE;
  decoder_begin(decoder);
  for (size_t at = 0; at < size && !outcome->fault; at += piece)
    decode_piece(decoder, data + at, size - at < piece ? size - at : piece, room, outcome);
  if (!outcome->fault && !decoder_end(decoder, &error)) outcome->fault = error.kind;
}

static bool never(void *cls) {
  (void)cls;
  return false;
}

static void check_encoded(enum coding coding, struct decoder *decoder, const char *data, size_t size,
                          struct outcome *outcome) {
  struct encoder *encoder = encoder_new(coding);
  char *coded = malloc(size + 1024);
  assert(encoder && coded);
  size_t length = encoder_run(encoder, (struct coding_step){data, size, coded, size + 1024}, never, NULL);
  assert(length > 0);
  decode(decoder, coded, length, length, MOST_DECODED, outcome);
  assert(outcome->fault == ERROR_NONE && outcome->length == size && memcmp(outcome->bytes, data, size) == 0);
  encoder_close(encoder);
  free(coded);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static struct decoder *decoders[CODINGS];  // reused, as in the daemon
  static char bytes[2][MOST_DECODED];
  if (size < HEAD) return 0;
  enum coding coding = CODING_GZIP + data[0] % (CODINGS - CODING_GZIP);
  if (!decoders[coding]) decoders[coding] = decoder_new(coding);
  assert(decoders[coding]);
  struct outcome whole = {.bytes = bytes[0]}, torn = {.bytes = bytes[1]};
  const char *body = (const char *)data + HEAD;
  size -= HEAD;
  decode(decoders[coding], body, size, size + 1, MOST_DECODED, &whole);
  decode(decoders[coding], body, size, 1 + data[1], 1 + 64 * (size_t)data[2], &torn);
  // If a fault follows directly after MOST_DECODED bytes, one run may report the fault and the other the limit.
  bool at_most = whole.fault == ERROR_BODY_TOO_LARGE || torn.fault == ERROR_BODY_TOO_LARGE;
  assert(whole.fault == torn.fault || at_most);
  if (!whole.fault && !torn.fault)
    assert(whole.length == torn.length && memcmp(whole.bytes, torn.bytes, whole.length) == 0);
  if (coding != CODING_DEFLATE) check_encoded(coding, decoders[coding], body, size, &whole);
  return 0;
}
