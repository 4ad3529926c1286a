// See fates.h.
#include "kernels/fates.h"

_Static_assert(offsetof(struct vx_counts, outside_image) == offsetof(struct vx_counts, fates[VX_FATE_OUTSIDE_IMAGE]),
               "the counts are in the order of the fates");

const char *const vx_fate_names[VX_FATE_COUNT] = {
    [VX_FATE_KEPT] = "kept",
    [VX_FATE_NOT_FINITE] = "not_finite",
    [VX_FATE_OUT_OF_RANGE] = "out_of_range",
    [VX_FATE_OVER_VOXEL_CAP] = "over_max_points_per_voxel",
    [VX_FATE_OVER_MAX_VOXELS] = "over_max_voxels",
    [VX_FATE_BLOCK_FILTERED] = "block_filtered",
    [VX_FATE_OUT_OF_CROP] = "out_of_crop",
    [VX_FATE_CUT_OUT] = "cut_out",
    [VX_FATE_BELOW_THRESHOLD] = "below_threshold",
    [VX_FATE_OVER_MAX_OBJECTS] = "over_max_objects",
    [VX_FATE_INVALID] = "invalid",
    [VX_FATE_OUTSIDE] = "outside",
    [VX_FATE_OVER_PRE_MAX] = "over_pre_max",
    [VX_FATE_SUPPRESSED] = "suppressed",
    [VX_FATE_OVER_POST_MAX] = "over_post_max",
    [VX_FATE_DUPLICATE] = "duplicate",
    [VX_FATE_OUT_OF_DISTANCE] = "out_of_distance",
    [VX_FATE_MERGED] = "merged",
    [VX_FATE_SPARSE_VOXEL] = "sparse_voxel",
    [VX_FATE_OUT_OF_LATTICE] = "out_of_lattice",
    [VX_FATE_SKIPPED] = "skipped",
    [VX_FATE_RING_OUTLIER] = "ring_outlier",
    [VX_FATE_NO_RING] = "no_ring",
    [VX_FATE_RADIUS_OUTLIER] = "radius_outlier",
    [VX_FATE_STATISTICAL_OUTLIER] = "statistical_outlier",
    [VX_FATE_OCCLUDED] = "occluded",
    [VX_FATE_OUTSIDE_IMAGE] = "outside_image",
};
