// For benchmarks of sparse convolution: backbones of SECOND and CenterPoint with random weights, and the voxels of a
// scan. One thread.
#ifndef VOXELD_TESTS_BENCH_BACKBONES_H
#define VOXELD_TESTS_BENCH_BACKBONES_H

#include "kernels/backends.h"
#include "kernels/sparse.h"

struct backbone_setup;

// All memory belongs to the bench.
struct backbone_bench {
  const struct backbone_setup *setup;
  struct vx_sparse backbone;
  struct vx_sparse_plan plan;
  struct vx_device *device;  // of the CPU
  struct vx_lane *lane;
  float *points;
  int32_t num_points, row_count;
  struct vx_layout layout;
  unsigned char *block;  // of the voxels
  struct vx_sparse_rows rows;
};

// Makes the backbone `second` (rows of 4 columns, the grid of kitti_second) or `centerpoint` (rows of 5, the grid of
// nuscenes_centerpoint_voxel0075), and voxelizes the scan to means. Prints why it fails.
bool backbone_open(struct backbone_bench *bench, const char *name, const char *scan);
void backbone_close(struct backbone_bench *bench);

void backbone_print_rows(const struct backbone_bench *bench, const int64_t *level_rows);

#endif
