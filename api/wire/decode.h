// Decodes a body as it arrives: gzip (RFC 1952), deflate in zlib's wrapping (RFC 1950) or zstd (RFC 8878). A body may
// be several gzip members or zstd frames in a row.
//
// One thread at a time uses a decoder. It can be reused for other bodies of its coding.
#ifndef VOXELD_DECODE_H
#define VOXELD_DECODE_H

#include <stdbool.h>
#include <stddef.h>

#include "api/base/problem.h"
#include "api/wire/coding.h"
#include "kernels/kernels.h"

enum { DECODE_WINDOW_LOG = 23 };  // of a zstd frame: 8 MiB (RFC 9659)

struct decoder;

// NULL if there is no memory.
struct decoder *decoder_new(enum coding coding);
void decoder_close(struct decoder *decoder);
enum coding decoder_coding(const struct decoder *decoder);
// Bytes of memory that the decoder holds now.
size_t decoder_bytes(const struct decoder *decoder);

// Bytes of room to begin decoding with. For a zstd body: the sizes that its frames give, plus one, if each is at most
// 128 KiB and the total at most about 16 times the body. Else twice the body.
size_t coding_first_room(enum coding coding, const char *in, size_t size);
// Begins another body.
void decoder_begin(struct decoder *decoder);
// Runs until all of `in` is taken and nothing is left to write, or until `out` is full.
VX_WARN_UNUSED bool decoder_run(struct decoder *decoder, struct coding_step *step, struct error *error);
// Decodes a whole stream into `out`: one zstd frame, gzip members, or zlib's deflate. `*length`: decoded bytes. False
// with an error, also if `room` is too small. Except for zstd, the decoder must be new.
VX_WARN_UNUSED bool decoder_whole(struct decoder *decoder, const char *in, size_t size, char *out, size_t room,
                                  size_t *length, struct vx_stop *stop, struct error *error);
// Checks that the body may end here.
VX_WARN_UNUSED bool decoder_end(const struct decoder *decoder, struct error *error);

#endif
