// See step_transform.h.
#include "kernels/step_transform.h"

const float *vx_matrix_of(const struct vx_transform *params, int32_t cloud) {
  static const float identity[VX_MATRIX_VALUES] = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1};
  if (params->num_matrices == 0) return identity;
  return params->matrices + (params->num_matrices == 1 ? 0 : (int64_t)cloud * VX_MATRIX_VALUES);
}

static enum vx_status check(const void *params, const struct vx_job *job, struct error *error) {
  int32_t count = ((const struct vx_transform *)params)->num_matrices;
  return count < 2 || count == job->num_clouds
             ? VX_OK
             : vx_refuse(error, "%d matrices do not fit %d clouds", (int)count, (int)job->num_clouds);
}

const struct vx_step_row vx_step_transform = {
    .name = "transform",
    .fates = VX_FATE_BIT(VX_FATE_NOT_FINITE) | VX_FATE_BIT(VX_FATE_OUT_OF_CROP) | VX_FATE_BIT(VX_FATE_CUT_OUT) |
             VX_FATE_BIT(VX_FATE_OUT_OF_DISTANCE),
    .check = check,
};
