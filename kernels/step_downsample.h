// Downsample, a step: keeps few points of each cell of a lattice, or every k-th point.
//
// Cells are those of lattice.h. A point beyond them has the fate out_of_lattice. If a cell has fewer than min_points
// points of the cloud, they have the fate sparse_voxel. In each other cell one point stays and represents the other
// points, which have the fate merged:
//   first             the first
//   centroid          the first, with the mean in place of its columns: all of them, or with average `xyz` only x, y, z
//   center            the nearest to the cell's centre: (c + 0.5) * size + origin; with VX_CELLS_NEAREST, without 0.5
//   nearest_centroid  the nearest to the mean
//   random            the one whose vx_random_of_row(seed, row of the body) is least
//
// With the method `all`, all points of the cell stay. Of several points at the same squared distance (near.h), the
// first counts as the nearest. The mean is the sum of the points, divided once. The points are added in the order of
// rows, in groups as in a voxel without a cap. If the mean of x, y or z is not finite, the point with the mean has the
// fate not_finite.
//
// With `every`, cells do not matter: the points of a cloud are numbered from 0, and those whose number is a multiple of
// `every` stay. The other points have the fate skipped.
#ifndef VOXELD_STEP_DOWNSAMPLE_H
#define VOXELD_STEP_DOWNSAMPLE_H

#include "kernels/half.h"
#include "kernels/lattice.h"
#include "kernels/step.h"

enum vx_downsample_method {
  VX_DOWNSAMPLE_FIRST,
  VX_DOWNSAMPLE_CENTROID,
  VX_DOWNSAMPLE_CENTER,
  VX_DOWNSAMPLE_NEAREST_CENTROID,
  VX_DOWNSAMPLE_RANDOM,
  VX_DOWNSAMPLE_ALL,
};

enum vx_downsample_average { VX_AVERAGE_ALL, VX_AVERAGE_XYZ };

struct vx_downsample {
  int32_t every;  // 0: cells decide which points stay
  float size[3], origin[3];
  enum vx_downsample_method method;
  enum vx_lattice_cells cells;
  enum vx_downsample_average average;
  int32_t min_points;  // 1 or more
  int32_t seed;
};

#ifdef __cplusplus
extern "C" {
#endif
extern const struct vx_step_row vx_step_downsample;
#ifdef __cplusplus
}
#endif

VX_SHARED bool vx_lattice_on_axis(const struct vx_downsample *params, int axis, float p, int32_t *cell) {
  return vx_lattice_cell(params->origin[axis], params->size[axis], params->cells, p, cell);
}

VX_SHARED uint64_t vx_lattice_key(int32_t x, int32_t y, int32_t z) {
  return (uint64_t)x << 42 | (uint64_t)y << 21 | (uint64_t)z;
}
enum { VX_LATTICE_KEY_BITS = 63 };

VX_SHARED void vx_lattice_centre(const struct vx_downsample *params, uint64_t key, float centre[3]) {
  for (int axis = 0; axis < 3; axis++) {
    int32_t cell = (int32_t)(key >> 21 * (2 - axis) & 0x1FFFFF) - VX_LATTICE_END;
    centre[axis] =
        ((float)cell + (params->cells == VX_CELLS_NEAREST ? 0.0f : 0.5f)) * params->size[axis] + params->origin[axis];
  }
}

#endif
