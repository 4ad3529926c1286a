// The points that expect.h and inspect.h inspect: in host memory, or read through a function that copies bytes. Any
// thread; view_note and view_read change their sample. Nothing here allocates.
#ifndef VOXELD_POINTS_VIEW_H
#define VOXELD_POINTS_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/half.h"
#include "kernels/kernels.h"
#include "kernels/tensor.h"

struct points_view {
  const struct vx_input *points;  // [N,C]
  int32_t num_clouds;             // one after the other
  const int32_t *point_counts;    // [num_clouds]
  int32_t body_columns;           // of the body; a stream may have added the column of time
  // Copies bytes of the points to `out`; false if they cannot be read. NULL: `points` is in host memory.
  bool (*read)(void *ctx, uint64_t at, size_t bytes, char *out);
  void *ctx;
  bool only_reads;  // first pass of a sample (below): rows are read, nothing is judged
};

// Bytes of the points, in place or copied to `room`; NULL if they cannot be read.
static inline const char *view_bytes(const struct points_view *view, uint64_t at, size_t bytes, char *room) {
  if (!view->read) return (const char *)view->points->data + at;
  return view->read(view->ctx, at, bytes, room) ? room : NULL;
}

// Bytes of points that are read all at once, since single reads are slow. A first pass (view_note) notes the bytes that
// it would read, and sees zeros; the second (view_read) gets the bytes.
enum { SAMPLE_BYTES = 64 << 10 };  // view_note fails beyond it
struct view_sample {
  int32_t count, next;  // pieces; index of the next piece to read
  struct vx_piece piece[VX_MAX_PIECES];
  const char *bytes;  // the pieces' bytes, for the second pass
};

// For points_view.read; `sample` is its ctx.
bool view_note(void *sample, uint64_t at, size_t bytes, char *out);
bool view_read(void *sample, uint64_t at, size_t bytes, char *out);

// The value with number `index`; `values` need not be aligned.
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
