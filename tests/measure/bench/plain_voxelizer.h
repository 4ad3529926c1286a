// The plain sequential voxelizer: the baseline of voxel-bench, and a second opinion on its results.
//
// It models what the CPU voxelizer of voxelize-cuda, and others like it, does with each scan: make a dense grid with an
// empty list of points in every cell, push every point onto its cell's list, walk the whole grid and gather each list
// that is not empty into a row, and let the grid go. Within that it is written well, not as a straw man: C, one
// allocation for the grid; lists that double and stop growing at max_points_per_voxel; indices in the lists, not copies
// of the points; no work for a tensor that nobody asked for. It writes float32 only, which spares it the conversion to
// half precision.
//
// Rows come in the grid's order (x, then y, then z ascending: the backends' order=key). Where cells are more than
// max_voxels it keeps the first in that order, not the first to appear as the backends do; the numbers of voxels are
// the same.
//
// One thread. The voxelizer belongs to its caller, and so does nothing that it returns: rows live until the next run or
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

  // Of the last run; the tensors as kernels.h lays them out, NULL where asked.tensors does not name them.
  int64_t occupied;  // cells with a point
  int64_t voxels;    // rows: occupied, at most asked.params.voxelize.max_voxels
  int32_t *coords;   // [voxels, 4] batch z y x
  int32_t *num_points;
  float *voxel_features, *pillar_features, *padded;  // the last is the tensor `voxels`
  int64_t room;                                      // rows that those have room for
};

// Bytes of the dense grid alone, or INT64_MAX if that is no number.
int64_t plain_grid_bytes(const struct vx_job *asked);

// False with a reason if these parameters are beyond it (block filter, half-precision input) or memory is short.
VX_WARN_UNUSED bool plain_open(const struct vx_job *asked, struct plain_voxelizer *plain, struct error *error);
VX_WARN_UNUSED bool plain_run(struct plain_voxelizer *plain, const float *points,
                              int64_t num_points);  // false: out of memory
void plain_close(struct plain_voxelizer *plain);

#endif
