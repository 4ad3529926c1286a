// Decodes a body as it arrives: gzip (RFC 1952), deflate in zlib's wrapping (RFC 1950) or zstd (RFC 8878).
//
// Several gzip members or zstd frames in a row are one body. One thread at a time uses a decoder. A decoder can be
// reused for other bodies of its coding.
#ifndef VOXELD_DECODE_H
#define VOXELD_DECODE_H

#include <stdbool.h>
#include <stddef.h>

#include "api/base/problem.h"
#include "api/wire/coding.h"
#include "kernels/kernels.h"

enum { DECODE_WINDOW_LOG = 23 };  // the largest window of a zstd frame: 8 MiB (RFC 9659)

struct decoder;

// NULL if there is no memory.
struct decoder *decoder_new(enum coding coding);
void decoder_close(struct decoder *decoder);
enum coding decoder_coding(const struct decoder *decoder);
// Bytes of memory that the decoder holds; each step may add more.
size_t decoder_bytes(const struct decoder *decoder);

// Bytes of room to begin with when a body is decoded: one more than the sum of the sizes that its zstd frames give, if
// each is at most 128 KiB and the sum is at most 16 times the body; else twice the body.
size_t coding_first_room(enum coding coding, const char *in, size_t size);
// Begins a new body.
void decoder_begin(struct decoder *decoder);
// Decodes until all of `in` is taken and nothing is left to write, or until `out` is full. False with an error.
VX_WARN_UNUSED bool decoder_run(struct decoder *decoder, struct coding_step *step, struct error *error);
// Decodes a whole stream, of one zstd frame or of gzip members, into `out`. Sets `*length` to the number of decoded
// bytes. False with an error, also if the stream has more than `room` bytes. Unless the stream is of
// zstd, the decoder must be new.
VX_WARN_UNUSED bool decoder_whole(struct decoder *decoder, const char *in, size_t size, char *out, size_t room,
                                  size_t *length, struct vx_stop *stop, struct error *error);
// Whether the body may end here. False with an error.
VX_WARN_UNUSED bool decoder_end(const struct decoder *decoder, struct error *error);

#endif
