// See transform.h.
#include "kernels/transform.h"

const float *vx_matrix_of(const struct vx_input *matrix, int32_t cloud) {
  static const float identity[VX_MATRIX_VALUES] = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1};
  if (matrix->rank == 0) return identity;
  return (const float *)matrix->data + (matrix->dims[0] == 1 ? 0 : (int64_t)cloud * VX_MATRIX_VALUES);
}
