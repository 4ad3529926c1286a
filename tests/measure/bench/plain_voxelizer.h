// The plain sequential voxelizer: the baseline of voxel-bench, and a second implementation to compare with.
//
// For each scan, like the CPU voxelizer of voxelize-cuda, it makes a dense grid with an empty list in every cell,
// pushes every point onto its cell's list, makes each list that is not empty a row, and frees the grid. To be a fair
// baseline it allocates the grid at once, keeps indices instead of points, stops lists at max_points_per_voxel, and
// makes only requested tensors.
//
// Rows are in the grid's order (x, then y, then z ascending: the backends' order=key). If more than max_voxels
// cells have points, it keeps the first cells in that order; the backends keep the first to appear.
//
// One thread. The voxelizer belongs to its caller; the rows belong to the voxelizer and live until the next run or
// close.
#ifndef VOXELD_TESTS_PLAIN_VOXELIZER_H
#define VOXELD_TESTS_PLAIN_VOXELIZER_H

#include "kernels/kernels.h"

struct plain_list {
  int32_t *points;  // indices, in input order; allocated at the first push
  int32_t count, capacity;
};

struct plain_voxelizer {
  struct vx_job asked;
  struct vx_grid grid;
  size_t cells;
  struct plain_list *lists;  // [x][y][z], during a run

  // Results of the last run, with the shapes of kernels.h. Tensors of floats are NULL if not requested.
  int64_t occupied;  // cells with a point
  int64_t voxels;    // cells with a point, but at most asked.params.voxelize.max_voxels
  int32_t *coords;   // [voxels, 4] batch z y x
  int32_t *num_points;
  float *voxel_features, *pillar_features, *padded;  // the last is the tensor `voxels`
  int64_t room;                                      // maximum rows that these arrays hold
};

// Bytes of the dense grid alone; INT64_MAX on overflow.
int64_t plain_grid_bytes(const struct vx_job *asked);

// Returns false with a reason if the parameters are not supported (block filter, half-precision input, too large a
// grid). Allocates nothing.
VX_WARN_UNUSED bool plain_open(const struct vx_job *asked, struct plain_voxelizer *plain, struct error *error);
VX_WARN_UNUSED bool plain_run(struct plain_voxelizer *plain, const float *points,
                              int64_t num_points);  // returns false if memory is short
void plain_close(struct plain_voxelizer *plain);

#endif
