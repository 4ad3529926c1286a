// See step_radius_outlier.h.
#include "kernels/step_radius_outlier.h"

const struct vx_step_row vx_step_radius_outlier = {
    .name = "radius_outlier",
    .fates = VX_FATE_BIT(VX_FATE_NOT_FINITE) | VX_FATE_BIT(VX_FATE_RADIUS_OUTLIER),
};
