// See fates.h.
#include "kernels/fates.h"

#include <string.h>

static const struct fate_row {
  const char *name;
  size_t offset;  // of the count in struct vx_counts
} fate_table[VX_FATE_COUNT] = {
    [VX_FATE_KEPT] = {"kept", offsetof(struct vx_counts, kept)},
    [VX_FATE_NOT_FINITE] = {"not_finite", offsetof(struct vx_counts, not_finite)},
    [VX_FATE_OUT_OF_RANGE] = {"out_of_range", offsetof(struct vx_counts, out_of_range)},
    [VX_FATE_OVER_VOXEL_CAP] = {"over_max_points_per_voxel", offsetof(struct vx_counts, over_voxel_cap)},
    [VX_FATE_OVER_MAX_VOXELS] = {"over_max_voxels", offsetof(struct vx_counts, over_max_voxels)},
    [VX_FATE_BLOCK_FILTERED] = {"block_filtered", offsetof(struct vx_counts, block_filtered)},
    [VX_FATE_OUT_OF_CROP] = {"out_of_crop", offsetof(struct vx_counts, out_of_crop)},
    [VX_FATE_CUT_OUT] = {"cut_out", offsetof(struct vx_counts, cut_out)},
    [VX_FATE_BELOW_THRESHOLD] = {"below_threshold", offsetof(struct vx_counts, below_threshold)},
    [VX_FATE_OVER_MAX_OBJECTS] = {"over_max_objects", offsetof(struct vx_counts, over_max_objects)},
    [VX_FATE_INVALID] = {"invalid", offsetof(struct vx_counts, invalid)},
    [VX_FATE_OUTSIDE] = {"outside", offsetof(struct vx_counts, outside)},
    [VX_FATE_OVER_PRE_MAX] = {"over_pre_max", offsetof(struct vx_counts, over_pre_max)},
    [VX_FATE_SUPPRESSED] = {"suppressed", offsetof(struct vx_counts, suppressed)},
    [VX_FATE_OVER_POST_MAX] = {"over_post_max", offsetof(struct vx_counts, over_post_max)},
    [VX_FATE_DUPLICATE] = {"duplicate", offsetof(struct vx_counts, duplicate)},
    [VX_FATE_OUT_OF_DISTANCE] = {"out_of_distance", offsetof(struct vx_counts, out_of_distance)},
    [VX_FATE_MERGED] = {"merged", offsetof(struct vx_counts, merged)},
    [VX_FATE_SPARSE_VOXEL] = {"sparse_voxel", offsetof(struct vx_counts, sparse_voxel)},
    [VX_FATE_OUT_OF_LATTICE] = {"out_of_lattice", offsetof(struct vx_counts, out_of_lattice)},
    [VX_FATE_SKIPPED] = {"skipped", offsetof(struct vx_counts, skipped)},
    [VX_FATE_RING_OUTLIER] = {"ring_outlier", offsetof(struct vx_counts, ring_outlier)},
    [VX_FATE_NO_RING] = {"no_ring", offsetof(struct vx_counts, no_ring)},
    [VX_FATE_RADIUS_OUTLIER] = {"radius_outlier", offsetof(struct vx_counts, radius_outlier)},
    [VX_FATE_STATISTICAL_OUTLIER] = {"statistical_outlier", offsetof(struct vx_counts, statistical_outlier)},
};

const char *vx_fate_name(enum vx_fate fate) { return fate_table[fate].name; }

int64_t vx_fate_count(enum vx_fate fate, const struct vx_counts *counts) {
  int64_t count;
  memcpy(&count, (const char *)counts + fate_table[fate].offset, sizeof count);
  return count;
}

void vx_set_fate_count(enum vx_fate fate, int64_t count, struct vx_counts *counts) {
  memcpy((char *)counts + fate_table[fate].offset, &count, sizeof count);
}
