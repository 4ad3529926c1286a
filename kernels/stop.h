// Stopping a job early: every pass asks its job's caller now and then whether to go on.
//
// A pass goes over rows: points, voxels, boxes, cells, values. Its loop is VX_EACH_ROW, which asks once per VX_STRIDE
// rows, counted over all passes; so a small job never asks. Once the caller says yes, no pass goes on. A pass therefore
// has no status of its own: what it leaves is incomplete, and the passes behind it do not look at it. Whoever runs the
// passes returns vx_stop_status.
//
// A struct vx_stop belongs to one thread. Where one is asked for, NULL means that nobody is asked.
#ifndef VOXELD_STOP_H
#define VOXELD_STOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/error.h"

#ifdef __cplusplus
extern "C" {
#endif

#define VX_STRIDE (INT64_C(1) << 16)

struct vx_stop {
  bool (*stopped)(void *ctx);  // may be NULL
  void *ctx;
  int64_t rows;      // since it was asked
  bool has_stopped;  // it said yes
};

// Asks at once. True: end.
bool vx_stop_now(struct vx_stop *stop);

// Counts rows, or work that takes as long, and asks if there were enough since the last time. True: end.
static inline bool vx_stopped(struct vx_stop *stop, int64_t rows) {
  if (!stop) return false;
  stop->rows += rows;
  return stop->rows >= VX_STRIDE ? vx_stop_now(stop) : stop->has_stopped;
}

// Where the stride of `count` rows that begins at `begin` ends: there, if there is none or the job is stopped.
int64_t vx_stride_end(struct vx_stop *stop, int64_t begin, int64_t count);

// A loop over the rows `begin` to `count` - 1, with int64_t `i`. It may not `break`. The inner loop is a plain one, so
// that the compiler makes of it what it makes of any.
#define VX_EACH_ROW(stop, i, begin, count)                                                                             \
  for (int64_t i = (begin), i##_end; (i##_end = vx_stride_end(stop, i, count)) > (i);)                                 \
    for (; (i) < i##_end; (i)++)

// How many of `left` bytes a pass may move at a time; 0 if none are left, or the job is stopped.
size_t vx_stride_bytes(struct vx_stop *stop, size_t left);

// As memset and memcpy, stride by stride: what is large would take long.
void vx_fill(struct vx_stop *stop, void *to, int byte, size_t bytes);
void vx_copy(struct vx_stop *stop, void *to, const void *from, size_t bytes);

// VX_STOPPED with an error if passes were ended, else VX_OK.
VX_WARN_UNUSED enum vx_status vx_stop_status(const struct vx_stop *stop, struct error *error);

#ifdef __cplusplus
}
#endif
#endif
