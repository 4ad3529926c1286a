// See step_downsample.h.
#include "kernels/step_downsample.h"

const struct vx_step_row vx_step_downsample = {
    .name = "downsample",
    .fates = VX_FATE_BIT(VX_FATE_NOT_FINITE) | VX_FATE_BIT(VX_FATE_OUT_OF_LATTICE) | VX_FATE_BIT(VX_FATE_SPARSE_VOXEL) |
             VX_FATE_BIT(VX_FATE_MERGED) | VX_FATE_BIT(VX_FATE_SKIPPED),
};
