// See step_statistical_outlier.h.
#include "kernels/step_statistical_outlier.h"

const struct vx_step_row vx_step_statistical_outlier = {
    .name = "statistical_outlier",
    .is_long = true,
    .fates = VX_FATE_BIT(VX_FATE_NOT_FINITE) | VX_FATE_BIT(VX_FATE_STATISTICAL_OUTLIER),
};
