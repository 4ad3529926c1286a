// See encode.h.
#include "api/wire/encode.h"

#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <zlib.h>
#include <zstd.h>

enum { LEVEL = 1, GZIP = 16, MEM_LEVEL = 8, PIECE = 1 << 20 };  // GZIP is added to the bits of the window

struct encoder {
  enum coding coding;
  z_stream zlib;
  ZSTD_CCtx *zstd;
};

static bool open_library(struct encoder *encoder) {
  if (encoder->coding == CODING_GZIP)
    return deflateInit2(&encoder->zlib, LEVEL, Z_DEFLATED, MAX_WBITS + GZIP, MEM_LEVEL, Z_DEFAULT_STRATEGY) == Z_OK;
  encoder->zstd = ZSTD_createCCtx();
  return encoder->zstd && !ZSTD_isError(ZSTD_CCtx_setParameter(encoder->zstd, ZSTD_c_compressionLevel, LEVEL));
}

struct encoder *encoder_new(enum coding coding) {
  struct encoder *encoder = malloc(sizeof *encoder);
  if (!encoder) return NULL;
  *encoder = (struct encoder){.coding = coding};
  if (open_library(encoder)) return encoder;
  ZSTD_freeCCtx(encoder->zstd);
  free(encoder);
  return NULL;
}

void encoder_close(struct encoder *encoder) {
  if (!encoder) return;
  if (encoder->coding == CODING_GZIP) (void)deflateEnd(&encoder->zlib);
  ZSTD_freeCCtx(encoder->zstd);
  free(encoder);
}

enum coding encoder_coding(const struct encoder *encoder) { return encoder->coding; }

// Compresses the next `size` bytes; the last piece ends the stream. False if there is no room.
static bool gzip_piece(z_stream *zlib, struct coding_step *step, size_t size, bool last) {
  unsigned room = step->out_size < INT_MAX ? (unsigned)step->out_size : INT_MAX;
  zlib->next_in = (Bytef *)(uintptr_t)step->in;  // zlib only reads it
  zlib->avail_in = (unsigned)size;
  zlib->next_out = (Bytef *)step->out;
  zlib->avail_out = room;
  int code = deflate(zlib, last ? Z_FINISH : Z_NO_FLUSH);
  step->out += room - zlib->avail_out;
  step->out_size -= room - zlib->avail_out;
  return zlib->avail_in == 0 && code == (last ? Z_STREAM_END : Z_OK);
}

static bool zstd_piece(ZSTD_CCtx *zstd, struct coding_step *step, size_t size, bool last) {
  ZSTD_inBuffer in = {step->in, size, 0};
  ZSTD_outBuffer out = {step->out, step->out_size, 0};
  size_t left = ZSTD_compressStream2(zstd, &out, &in, last ? ZSTD_e_end : ZSTD_e_continue);
  step->out += out.pos;
  step->out_size -= out.pos;
  return !ZSTD_isError(left) && in.pos == size && (!last || left == 0);
}

static void begin(struct encoder *encoder, size_t size) {
  if (encoder->coding == CODING_GZIP) {
    (void)deflateReset(&encoder->zlib);
    return;
  }
  (void)ZSTD_CCtx_reset(encoder->zstd, ZSTD_reset_session_only);
  (void)ZSTD_CCtx_setPledgedSrcSize(encoder->zstd, size);
}

size_t encoder_run(struct encoder *encoder, struct coding_step step, bool (*is_stopped)(void *cls), void *cls) {
  const char *start = step.out;
  begin(encoder, step.in_size);
  for (bool last = false; !last;) {
    size_t size = step.in_size < PIECE ? step.in_size : PIECE;
    last = size == step.in_size;
    if (is_stopped(cls)) return 0;
    if (!(encoder->coding == CODING_GZIP ? gzip_piece(&encoder->zlib, &step, size, last)
                                         : zstd_piece(encoder->zstd, &step, size, last)))
      return 0;
    step.in += size;
    step.in_size -= size;
  }
  return (size_t)(step.out - start);
}
