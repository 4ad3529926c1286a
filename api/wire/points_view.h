// The points that expect.h and inspect.h inspect: in memory, or read through a function that copies bytes.
//
// view_note and view_read change their sample. Any thread; nothing here allocates.
#ifndef VOXELD_POINTS_VIEW_H
#define VOXELD_POINTS_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/half.h"
#include "kernels/kernels.h"
#include "kernels/tensor.h"

struct points_view {
  const struct vx_input *points;  // [N, C]
  int32_t num_clouds;             // the points belong to this many clouds, one after the other
  const int32_t *point_counts;    // [num_clouds]; the sum is N
  int32_t body_columns;           // columns of the body; a stream may have added the column of time
  // Copies bytes of the points to `out`. False: they cannot be read. NULL: `points` is in host memory.
  bool (*read)(void *ctx, uint64_t at, size_t bytes, char *out);
  void *ctx;
  bool only_reads;  // in the first pass of a sample (below): an inspection reads its rows, but judges nothing
};

// Bytes of the points: where they are, or copied to `room`. NULL: they cannot be read.
static inline const char *view_bytes(const struct points_view *view, uint64_t at, size_t bytes, char *room) {
  if (!view->read) return (const char *)view->points->data + at;
  return view->read(view->ctx, at, bytes, room) ? room : NULL;
}

// Bytes of points that are read all at once, because reading them one after the other takes too long. A first pass
// notes which bytes it would read, and sees zeros; a second pass has the bytes.
enum { SAMPLE_BYTES = 64 << 10 };  // view_note fails beyond this size
struct view_sample {
  int32_t count, next;  // pieces; the piece to read next
  struct vx_piece piece[VX_MAX_PIECES];
  const char *bytes;  // what was read, for the second pass
};

// For points_view.read, with the sample as its `ctx`.
bool view_note(void *sample, uint64_t at, size_t bytes, char *out);
bool view_read(void *sample, uint64_t at, size_t bytes, char *out);

// The value of number `index`, which may lie at any byte.
static inline float value_of(enum vx_dtype dtype, const char *values, int64_t index) {
  uint16_t half;
  uint32_t bits;
  if (dtype == VX_FLOAT16) {
    memcpy(&half, values + (size_t)index * sizeof half, sizeof half);
    return vx_half_to_float(half);
  }
  memcpy(&bits, values + (size_t)index * sizeof bits, sizeof bits);
  return vx_bits_float(bits);
}

#endif
