// See decode.h.
#include "api/wire/decode.h"

#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

enum { MAGIC = 4, HEAD_MOST = 14 };
enum { ZLIB_BYTES = 48 * 1024 };    // zlib takes 40 KB
#define FRAME 0xFD2FB528u           // zstd's magic number
enum { SMALL_FRAME = 128 * 1024 };  // decoded bytes: the largest block of RFC 8878
enum { STRIDE_BYTES = 1 << 20 };    // decoded between two checks of `stop`

struct decoder {
  enum coding coding;
  bool inside;           // a member or frame has begun, not ended
  bool ended_one;        // a member or frame has ended
  z_stream zlib;         // of gzip and deflate
  ZSTD_DCtx *zstd;       // of zstd
  uint8_t magic[MAGIC];  // of the zstd frame that begins
  size_t magic_size;     // bytes of it that have arrived
  int head_left;         // bytes that may still belong to the frame's head
};

// ---- problems -------------------------------------------------------------------------------------------------------

static bool malformed(const struct decoder *decoder, const char *reason, struct error *error) {
  return error_refuse(error, ERROR_BAD_BODY, NULL, "the %s stream of the body is malformed: %s",
                      coding_name(decoder->coding), reason);
}

static bool trailing(const struct decoder *decoder, struct error *error) {
  return error_refuse(error, ERROR_BAD_BODY, NULL, "the body continues after the end of its %s stream",
                      coding_name(decoder->coding));
}

static bool no_memory(struct error *error) {
  return error_refuse(error, ERROR_MEMORY_FULL, NULL, "there is no memory to decode the body");
}

// ---- gzip and deflate -----------------------------------------------------------------------------------------------

static unsigned bounded(size_t size) { return size < INT_MAX ? (unsigned)size : INT_MAX; }

static int inflate_step(z_stream *zlib, struct coding_step *step) {
  unsigned in = bounded(step->in_size), out = bounded(step->out_size);
  zlib->next_in = (Bytef *)(uintptr_t)step->in;  // zlib only reads it
  zlib->avail_in = in;
  zlib->next_out = (Bytef *)step->out;
  zlib->avail_out = out;
  int code = inflate(zlib, Z_NO_FLUSH);
  step->in += in - zlib->avail_in;
  step->in_size -= in - zlib->avail_in;
  step->out += out - zlib->avail_out;
  step->out_size -= out - zlib->avail_out;
  return code;
}

static bool zlib_failed(const struct decoder *decoder, int code, struct error *error) {
  const z_stream *zlib = &decoder->zlib;
  if (code == Z_MEM_ERROR) return no_memory(error);
  if (code == Z_NEED_DICT) return malformed(decoder, "it needs a dictionary", error);
  // Nothing of this member was decoded: it is no member.
  if (decoder->ended_one && zlib->total_out == 0) return trailing(decoder, error);
  return malformed(decoder, zlib->msg ? zlib->msg : "wrong data", error);
}

static bool run_zlib(struct decoder *decoder, struct coding_step *step, struct error *error) {
  z_stream *zlib = &decoder->zlib;
  while (decoder->inside || step->in_size > 0) {
    if (!decoder->inside && decoder->ended_one) {
      if (decoder->coding == CODING_DEFLATE) return trailing(decoder, error);
      (void)inflateReset(zlib);
    }
    decoder->inside = true;
    int code = inflate_step(zlib, step);
    if (code == Z_STREAM_END) {
      decoder->inside = false;
      decoder->ended_one = true;
    } else if (code != Z_OK && code != Z_BUF_ERROR) {
      return zlib_failed(decoder, code, error);
    } else if (step->in_size == 0 && zlib->avail_out > 0) {
      return true;
    }
    if (step->out_size == 0) return true;
  }
  return true;
}

// ---- zstd -----------------------------------------------------------------------------------------------------------

// The magic number is read here and given to libzstd by itself: libzstd may accept formats older than RFC 8878, and
// does not check the window of a frame that it gets in one piece.
static uint32_t number_of(const uint8_t magic[MAGIC]) {
  return (uint32_t)magic[0] | (uint32_t)magic[1] << 8 | (uint32_t)magic[2] << 16 | (uint32_t)magic[3] << 24;
}

static bool is_frame(const uint8_t magic[MAGIC]) {
  return number_of(magic) == FRAME || (number_of(magic) & 0xFFFFFFF0u) == 0x184D2A50u;
}

static bool zstd_failed(const struct decoder *decoder, size_t code, struct error *error) {
  switch (ZSTD_getErrorCode(code)) {
    case ZSTD_error_memory_allocation: return no_memory(error);
    case ZSTD_error_frameParameter_windowTooLarge:
      return error_refuse(error, ERROR_BAD_BODY, NULL, "a zstd frame of the body has a window over %d MiB",
                          1 << (DECODE_WINDOW_LOG - 20));
    default: return malformed(decoder, ZSTD_getErrorName(code), error);
  }
}

// Returns 0 at the end of a frame.
static size_t run_library(ZSTD_DCtx *zstd, struct coding_step *step) {
  ZSTD_inBuffer in = {step->in, step->in_size, 0};
  ZSTD_outBuffer out = {step->out, step->out_size, 0};
  size_t code = ZSTD_decompressStream(zstd, &out, &in);
  step->in += in.pos;
  step->in_size -= in.pos;
  step->out += out.pos;
  step->out_size -= out.pos;
  return code;
}

// As run_library. The head goes to libzstd byte by byte: until the head is complete, libzstd looks for a frame, even of
// an older format, at the beginning of each piece.
static size_t zstd_step(struct decoder *decoder, struct coding_step *step) {
  if (!decoder->head_left || !step->in_size) return run_library(decoder->zstd, step);
  struct coding_step byte = {step->in, 1, step->out, step->out_size};
  size_t code = run_library(decoder->zstd, &byte), taken = 1 - byte.in_size;
  decoder->head_left -= (int)taken;
  *step = (struct coding_step){step->in + taken, step->in_size - taken, byte.out, byte.out_size};
  return code;
}

// Takes the bytes of the magic number that have arrived. Begins the frame once there are four.
static bool begin_frame(struct decoder *decoder, struct coding_step *step, struct error *error) {
  for (; decoder->magic_size < MAGIC && step->in_size > 0; step->in_size--)
    decoder->magic[decoder->magic_size++] = (uint8_t)*step->in++;
  if (decoder->magic_size < MAGIC) return true;
  if (!is_frame(decoder->magic))
    return decoder->ended_one ? trailing(decoder, error) : malformed(decoder, "it does not begin a frame", error);
  struct coding_step head = {.in = (const char *)decoder->magic, .in_size = MAGIC, .out = step->out, .out_size = 0};
  size_t code = run_library(decoder->zstd, &head);
  decoder->inside = true;
  decoder->head_left = HEAD_MOST;
  return !ZSTD_isError(code) || zstd_failed(decoder, code, error);
}

// The bytes of the frame at `in`, or 0. The frame must be complete, decode to 1 to SMALL_FRAME bytes (`*content`), and
// be a single segment without a block longer than `*content`. libzstd accepts such a frame in one piece only if it
// accepts it in several.
static size_t small_frame(const char *in, size_t size, size_t *content) {
  enum { FLAGS = 0x2B, SINGLE_SEGMENT = 0x20, CHECKSUM = 4, BLOCK_HEAD = 3, RUN = 1, RESERVED = 3 };
  const uint8_t *bytes = (const uint8_t *)in;
  if (size <= MAGIC || number_of(bytes) != FRAME || (bytes[MAGIC] & FLAGS) != SINGLE_SEGMENT) return 0;
  uint64_t length = ZSTD_getFrameContentSize(in, size);  // huge if it is not given
  size_t at = MAGIC + 1 + ((size_t)1 << (bytes[MAGIC] >> 6));
  if (length == 0 || length > SMALL_FRAME) return 0;
  for (bool last = false; !last;) {
    if (at + BLOCK_HEAD > size) return 0;
    uint32_t head = (uint32_t)bytes[at] | (uint32_t)bytes[at + 1] << 8 | (uint32_t)bytes[at + 2] << 16;
    uint32_t kind = head >> 1 & 3, block = head >> 3;
    if (kind == RESERVED || block > length) return 0;
    at += BLOCK_HEAD + (kind == RUN ? 1 : block);
    last = head & 1;
  }
  if (bytes[MAGIC] & CHECKSUM) at += 4;
  *content = (size_t)length;
  return at <= size ? at : 0;
}

size_t coding_first_room(enum coding coding, const char *in, size_t size) {
  enum { PLAIN_ROOM = 2, BELIEVED = 16 };
  // One byte more lets the decoder see the end of the last frame.
  size_t room = 1, content, bytes, left = coding == CODING_ZSTD ? size : 0;
  while ((bytes = small_frame(in, left, &content)) && content <= BELIEVED * size - room) {
    room += content;
    in += bytes;
    left -= bytes;
  }
  return coding == CODING_ZSTD && !left ? room : PLAIN_ROOM * size;
}

// Decodes small frames into `step->out` while they fit, without libzstd's copy in a window. Leaves a malformed frame to
// run_library, which finds its fault.
static void run_small_frames(struct decoder *decoder, struct coding_step *step) {
  size_t content, bytes;
  while (!decoder->magic_size && (bytes = small_frame(step->in, step->in_size, &content)) &&
         content <= step->out_size) {
    size_t code = ZSTD_decompressDCtx(decoder->zstd, step->out, content, step->in, bytes);
    if (ZSTD_isError(code)) {
      (void)ZSTD_DCtx_reset(decoder->zstd, ZSTD_reset_session_only);
      return;
    }
    *step = (struct coding_step){step->in + bytes, step->in_size - bytes, step->out + code, step->out_size - code};
    decoder->ended_one = true;
  }
}

static bool run_zstd(struct decoder *decoder, struct coding_step *step, struct error *error) {
  while (decoder->inside || step->in_size > 0) {
    if (!decoder->inside) run_small_frames(decoder, step);
    if (!decoder->inside && !begin_frame(decoder, step, error)) return false;
    if (!decoder->inside) return true;  // the magic number is incomplete
    size_t code = zstd_step(decoder, step);
    if (ZSTD_isError(code)) return zstd_failed(decoder, code, error);
    if (code == 0) {
      decoder->inside = false;
      decoder->ended_one = true;
      decoder->magic_size = 0;
    } else if (step->in_size == 0) {
      return true;
    }
    if (step->out_size == 0) return true;
  }
  return true;
}

// ---- both libraries -------------------------------------------------------------------------------------------------

static bool open_library(struct decoder *decoder) {
  if (decoder->coding != CODING_ZSTD)
    return inflateInit2(&decoder->zlib, decoder->coding == CODING_GZIP ? MAX_WBITS + 16 : MAX_WBITS) == Z_OK;
  decoder->zstd = ZSTD_createDCtx();
  return decoder->zstd && !ZSTD_isError(ZSTD_DCtx_setParameter(decoder->zstd, ZSTD_d_windowLogMax, DECODE_WINDOW_LOG));
}

struct decoder *decoder_new(enum coding coding) {
  struct decoder *decoder = malloc(sizeof *decoder);
  if (!decoder) return NULL;
  *decoder = (struct decoder){.coding = coding};
  if (open_library(decoder)) return decoder;
  ZSTD_freeDCtx(decoder->zstd);
  free(decoder);
  return NULL;
}

void decoder_close(struct decoder *decoder) {
  if (!decoder) return;
  if (decoder->coding != CODING_ZSTD) (void)inflateEnd(&decoder->zlib);
  ZSTD_freeDCtx(decoder->zstd);
  free(decoder);
}

enum coding decoder_coding(const struct decoder *decoder) { return decoder->coding; }

size_t decoder_bytes(const struct decoder *decoder) {
  return decoder->coding == CODING_ZSTD ? ZSTD_sizeof_DCtx(decoder->zstd) : ZLIB_BYTES;
}

void decoder_begin(struct decoder *decoder) {
  decoder->inside = decoder->ended_one = false;
  decoder->magic_size = 0;
  if (decoder->coding == CODING_ZSTD)
    (void)ZSTD_DCtx_reset(decoder->zstd, ZSTD_reset_session_only);
  else
    (void)inflateReset(&decoder->zlib);
}

bool decoder_run(struct decoder *decoder, struct coding_step *step, struct error *error) {
  return decoder->coding == CODING_ZSTD ? run_zstd(decoder, step, error) : run_zlib(decoder, step, error);
}

static bool too_long(const struct decoder *decoder, size_t room, struct error *error) {
  return error_refuse(error, ERROR_BAD_BODY, NULL, "a %s stream in the body is longer than the %zu bytes promised",
                      coding_name(decoder->coding), room);
}

// In one piece libzstd decodes without a window, so the decoder needs no more memory.
static bool whole_frame(struct decoder *decoder, const char *in, size_t size, char *out, size_t room, size_t *length,
                        struct error *error) {
  if (size < MAGIC || !is_frame((const uint8_t *)in) || ZSTD_findFrameCompressedSize(in, size) != size)
    return malformed(decoder, "it is not one frame", error);
  *length = ZSTD_decompressDCtx(decoder->zstd, out, room, in, size);
  if (!ZSTD_isError(*length)) return true;
  bool full = ZSTD_getErrorCode(*length) == ZSTD_error_dstSize_tooSmall;
  return full ? too_long(decoder, room, error) : zstd_failed(decoder, *length, error);
}

static bool whole_members(struct decoder *decoder, struct coding_step step, size_t *length, struct vx_stop *stop,
                          struct error *error) {
  char beyond, *begin = step.out;
  size_t room = step.out_size;
  for (bool more = true; more && !vx_stopped(stop, VX_STRIDE);) {
    size_t left = room - (size_t)(step.out - begin);
    step.out_size = left < STRIDE_BYTES ? left : STRIDE_BYTES;
    if (!decoder_run(decoder, &step, error)) return false;
    more = step.out_size == 0 && (size_t)(step.out - begin) < room;
  }
  *length = (size_t)(step.out - begin);
  step.out = &beyond;
  step.out_size = 1;
  if (!decoder_run(decoder, &step, error)) return false;
  return step.out_size == 0 ? too_long(decoder, room, error) : decoder_end(decoder, error);
}

bool decoder_whole(struct decoder *decoder, const char *in, size_t size, char *out, size_t room, size_t *length,
                   struct vx_stop *stop, struct error *error) {
  if (decoder->coding == CODING_ZSTD) return whole_frame(decoder, in, size, out, room, length, error);
  return whole_members(decoder, (struct coding_step){in, size, out, room}, length, stop, error);
}

bool decoder_end(const struct decoder *decoder, struct error *error) {
  if (decoder->ended_one && !decoder->inside && decoder->magic_size == 0) return true;
  return error_refuse(error, ERROR_BAD_BODY, NULL, "the body ends before its %s stream does",
                      coding_name(decoder->coding));
}
