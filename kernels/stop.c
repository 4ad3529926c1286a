// See stop.h.
#include "kernels/stop.h"

#include <stdio.h>
#include <string.h>

enum { ROW_BYTES = 64 };  // bytes of moved memory that count as one row

bool vx_stop_now(struct vx_stop *stop) {
  stop->rows = 0;
  stop->has_stopped = stop->has_stopped || (stop->stopped && stop->stopped(stop->ctx));
  return stop->has_stopped;
}

int64_t vx_stride_end(struct vx_stop *stop, int64_t begin, int64_t count) {
  int64_t rows = count - begin < VX_STRIDE ? count - begin : VX_STRIDE;
  return rows <= 0 || vx_stopped(stop, rows) ? begin : begin + rows;
}

size_t vx_stride_bytes(struct vx_stop *stop, size_t left) {
  size_t most = VX_STRIDE * ROW_BYTES, bytes = left < most ? left : most;
  return bytes > 0 && vx_stopped(stop, (int64_t)(bytes / ROW_BYTES)) ? 0 : bytes;
}

void vx_fill(struct vx_stop *stop, void *to, int byte, size_t bytes) {
  for (size_t more; (more = vx_stride_bytes(stop, bytes)) > 0; bytes -= more)
    to = (char *)memset(to, byte, more) + more;
}

void vx_copy(struct vx_stop *stop, void *to, const void *from, size_t bytes) {
  for (size_t more; (more = vx_stride_bytes(stop, bytes)) > 0; bytes -= more) {
    to = (char *)memcpy(to, from, more) + more;
    from = (const char *)from + more;
  }
}

enum vx_status vx_stop_status(const struct vx_stop *stop, struct error *error) {
  if (!stop->has_stopped) return VX_OK;
  return vx_fail(error, VX_STOPPED, "ended before all rows were done");
}
