// See deskew.h.
#include "kernels/deskew.h"

// One loop over columns of coordinates, which compilers vectorize.
void vx_deskew_rows(const struct vx_segment *segment, const float t[VX_DESKEWED_AT_ONCE],
                    float *const rows[VX_DESKEWED_AT_ONCE], int32_t count) {
  float x[VX_DESKEWED_AT_ONCE] = {0}, y[VX_DESKEWED_AT_ONCE] = {0}, z[VX_DESKEWED_AT_ONCE] = {0};
  const struct vx_segment own = *segment;
  for (int32_t i = 0; i < count; i++) x[i] = rows[i][0], y[i] = rows[i][1], z[i] = rows[i][2];
  for (int i = 0; i < VX_DESKEWED_AT_ONCE; i++) {
    float point[3] = {x[i], y[i], z[i]};
    vx_deskew(&own, t[i], point);
    x[i] = point[0], y[i] = point[1], z[i] = point[2];
  }
  for (int32_t i = 0; i < count; i++) rows[i][0] = x[i], rows[i][1] = y[i], rows[i][2] = z[i];
}
