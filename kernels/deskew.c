// See deskew.h.
#include "kernels/deskew.h"

enum { AT_ONCE = 16 };

// Points of one segment that wait to be moved together.
struct block {
  int32_t segment, count;
  float t[AT_ONCE];
  float *rows[AT_ONCE];
};

// Copies the coordinates into columns, so that compilers vectorize the loop over them.
static void move(const struct vx_segment *segment, const struct block *block) {
  float x[AT_ONCE] = {0}, y[AT_ONCE] = {0}, z[AT_ONCE] = {0};
  const struct vx_segment own = *segment;
  float *const *rows = block->rows;
  for (int32_t i = 0; i < block->count; i++) x[i] = rows[i][0], y[i] = rows[i][1], z[i] = rows[i][2];
  for (int i = 0; i < AT_ONCE; i++) {
    float point[3] = {x[i], y[i], z[i]};
    vx_deskew(&own, block->t[i], point);
    x[i] = point[0], y[i] = point[1], z[i] = point[2];
  }
  for (int32_t i = 0; i < block->count; i++) rows[i][0] = x[i], rows[i][1] = y[i], rows[i][2] = z[i];
}

static void flush(struct block *block, const struct vx_motion *motion) {
  if (block->count) move(&motion->segments[block->segment], block);
  block->count = 0;
}

static void put(struct block *block, const struct vx_motion *motion, float t, float *row) {
  int32_t segment = vx_segment_at(motion->segments, motion->count, t, block->segment);
  if (block->count == AT_ONCE || segment != block->segment) flush(block, motion);
  block->segment = segment;
  block->t[block->count] = t;
  block->rows[block->count++] = row;
}

void vx_deskew_rows(struct vx_deskew *deskew, int32_t columns, int64_t points, struct vx_stop *stop, float *rows) {
  const struct vx_motion *motion = deskew->motion;
  struct block block = {0};
  VX_EACH_ROW(stop, i, 0, points) {
    float *row = rows + i * columns, t = deskew->times[i];
    if (!vx_is_finite(t)) row[0] = vx_bits_float(VX_FLOAT_NAN);
    if (motion->count == 0 || !vx_are_finite(row[0], row[1], row[2])) continue;
    deskew->moved++;
    deskew->clamped += t < motion->first || t > motion->last;
    t = t < motion->first ? motion->first : t;
    put(&block, motion, t > motion->last ? motion->last : t, row);
  }
  flush(&block, motion);
}
