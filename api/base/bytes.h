// Writes little-endian integers and blocks of bytes into a text builder, for binary files; joins parts of a block.
#ifndef VOXELD_BYTES_H
#define VOXELD_BYTES_H

#include <string.h>

#include "api/base/text.h"
#include "kernels/stop.h"

static inline void bytes_encode(char *to, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; i++) to[i] = (char)(value >> (8 * i) & 0xff);
}

// Appends the lowest `bytes` of the value, up to 8.
static inline void bytes_put(struct text *out, uint64_t value, int bytes) {
  char piece[8];
  bytes_encode(piece, value, bytes);
  text_append(out, piece, (size_t)bytes);
}

// Appends many bytes in pieces, and ends early if the job is stopped. If `bytes` is NULL, only counts the length.
static inline void bytes_append(struct text *out, struct vx_stop *stop, const char *bytes, size_t length) {
  if (!bytes) text_append(out, NULL, length);
  for (size_t more; bytes && (more = vx_stride_bytes(stop, length)) > 0; bytes += more, length -= more)
    text_append(out, bytes, more);
}

// Appends room for the caller to fill. NULL while `out` only measures, or if it has no room.
static inline char *bytes_reserve(struct text *out, size_t bytes) {
  char *room = out->length + bytes < out->capacity ? out->data + out->length : NULL;
  out->length += bytes;
  if (room) room[bytes] = '\0';
  return room;
}

// Overwrites bytes that were appended earlier, from `at` on. Does nothing while `out` only measures.
static inline void bytes_patch(const struct text *out, size_t at, uint64_t value, int bytes) {
  if (at + (size_t)bytes <= out->length && out->length <= out->capacity) bytes_encode(out->data + at, value, bytes);
}

static inline void bytes_zero(struct text *out, size_t bytes) {
  for (; bytes > 0; bytes--) bytes_put(out, 0, 1);
}

struct byte_range {
  size_t offset, bytes;
};

// Moves the ranges, which are in order and do not overlap, together at the beginning of `data`. Returns their total
// size.
static inline size_t ranges_join(char *data, const struct byte_range *ranges, int count) {
  size_t length = 0;
  for (int i = 0; i < count; i++) {
    memmove(data + length, data + ranges[i].offset, ranges[i].bytes);
    length += ranges[i].bytes;
  }
  return length;
}

#endif
