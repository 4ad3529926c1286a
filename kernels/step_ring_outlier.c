// See step_ring_outlier.h.
#include "kernels/step_ring_outlier.h"

static enum vx_status check(const void *params, const struct vx_job *job, struct error *error) {
  int32_t column = ((const struct vx_ring_outlier *)params)->column;
  if (column == VX_KITTI_RINGS || (column >= 0 && column < job->inputs[VX_POINTS].dims[1])) return VX_OK;
  return vx_refuse(error, "the points have no column %d for the rings", (int)column);
}

static bool reads_body(const void *params) {
  return ((const struct vx_ring_outlier *)params)->column == VX_KITTI_RINGS;
}

const struct vx_step_row vx_step_ring_outlier = {
    .name = "ring_outlier",
    .fates = VX_FATE_BIT(VX_FATE_NOT_FINITE) | VX_FATE_BIT(VX_FATE_NO_RING) | VX_FATE_BIT(VX_FATE_RING_OUTLIER),
    .check = check,
    .reads_body = reads_body,
};
