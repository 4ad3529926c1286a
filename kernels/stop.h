// Stopping a job early: passes regularly ask the job's caller whether the job is stopped.
//
// A pass is a loop over rows: points, voxels, boxes, cells or values. VX_EACH_ROW asks once per VX_STRIDE rows, counted
// over all passes, and ends once the job is stopped. What the pass leaves is then incomplete. A pass returns no status:
// the function that runs the passes returns vx_stop_status.
//
// A struct vx_stop belongs to one thread. NULL in its place means that the job is not stopped early.
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
  int64_t rows;      // since the last call of `stopped`
  bool has_stopped;  // `stopped` has returned true
};

// Calls `stopped` at once, and returns whether the job is stopped.
bool vx_stop_now(struct vx_stop *stop);

// Counts rows, or work that takes as long. Calls `stopped` after every VX_STRIDE of them. Returns whether the job is
// stopped.
static inline bool vx_stopped(struct vx_stop *stop, int64_t rows) {
  if (!stop) return false;
  stop->rows += rows;
  return stop->rows >= VX_STRIDE ? vx_stop_now(stop) : stop->has_stopped;
}

// The end of the stride that begins at row `begin`; `begin` if no row is left or the job is stopped.
int64_t vx_stride_end(struct vx_stop *stop, int64_t begin, int64_t count);

// A loop over the rows `begin` to `count` - 1, with int64_t `i`. Its body must not `break`. The plain inner loop is for
// the compiler's optimizations.
#define VX_EACH_ROW(stop, i, begin, count)                                                                             \
  for (int64_t i = (begin), i##_end; (i##_end = vx_stride_end(stop, i, count)) > (i);)                                 \
    for (; (i) < i##_end; (i)++)

// How many of `left` bytes a pass may move next; 0 if none are left or the job is stopped.
size_t vx_stride_bytes(struct vx_stop *stop, size_t left);

// memset and memcpy in strides.
void vx_fill(struct vx_stop *stop, void *to, int byte, size_t bytes);
void vx_copy(struct vx_stop *stop, void *to, const void *from, size_t bytes);

// VX_STOPPED with an error if the job was stopped, else VX_OK.
VX_WARN_UNUSED enum vx_status vx_stop_status(const struct vx_stop *stop, struct error *error);

#ifdef __cplusplus
}
#endif
#endif
