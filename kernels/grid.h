// From a point to its cell, and from a cell to its key.
//
// Pure functions for C and CUDA. All arithmetic is IEEE binary32, with division instead of reciprocals. Compile it with
// -ffp-contract=off or --fmad=false.
#ifndef VOXELD_GRID_H
#define VOXELD_GRID_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "kernels/half.h"
#include "kernels/host_device.h"
#include "kernels/voxelize.h"

// The layout of a 64-bit cell key: x above y above z, each in as many bits as its axis needs. Ascending keys are
// ascending (x, y, z). A grid of at most VX_MAX_GRID_CELLS cells needs at most 64 bits, since each axis wastes less
// than one bit.
struct vx_key_format {
  int z_bits, yz_bits, bits;
};

struct vx_cell_map {
  float min[3], size[3];
  float least[3], most[3];  // (p - min) / size is clamped to these bounds; infinite: no bound
  float limit[3];           // number of cells; a whole number in float32, so t < limit is exact
  struct vx_key_format key;
};

// Bits that hold 0 .. cells - 1.
VX_SHARED int vx_bits_for(int32_t cells) {
  int bits = 0;
  while (bits < 31 && (INT32_C(1) << bits) < cells) bits++;
  return bits;
}

VX_SHARED struct vx_key_format vx_key_format_of(int32_t x_cells, int32_t y_cells, int32_t z_cells) {
  struct vx_key_format format;
  format.z_bits = vx_bits_for(z_cells);
  format.yz_bits = format.z_bits + vx_bits_for(y_cells);
  format.bits = format.yz_bits + vx_bits_for(x_cells);
  return format;
}

VX_SHARED uint64_t vx_key(struct vx_key_format format, int32_t x, int32_t y, int32_t z) {
  return (uint64_t)x << format.yz_bits | (uint64_t)y << format.z_bits | (uint64_t)z;
}

VX_SHARED void vx_cell_of_key(struct vx_key_format format, uint64_t key, int32_t cell[3]) {
  uint64_t y_mask = (UINT64_C(1) << (format.yz_bits - format.z_bits)) - 1;
  uint64_t z_mask = (UINT64_C(1) << format.z_bits) - 1;
  cell[0] = (int32_t)(key >> format.yz_bits);
  cell[1] = (int32_t)(key >> format.z_bits & y_mask);
  cell[2] = (int32_t)(key & z_mask);
}

static inline struct vx_cell_map vx_cell_map_of(const struct vx_voxelize *params, const struct vx_grid *grid) {
  struct vx_cell_map map;
  for (int axis = 0; axis < 3; axis++) {
    map.min[axis] = params->range_min[axis];
    map.size[axis] = params->voxel_size[axis];
    map.limit[axis] = (float)grid->cells[axis];
    bool clamped = params->coordinates == VX_CYLINDER;
    map.least[axis] = clamped ? 0.0f : -INFINITY;
    map.most[axis] =
        clamped ? (params->range_max[axis] - params->range_min[axis]) / params->voxel_size[axis] : INFINITY;
  }
  map.key = vx_key_format_of(grid->cells[0], grid->cells[1], grid->cells[2]);
  return map;
}

// Whether coordinate p lies in the grid on one axis, and in which cell (0 if it does not).
//
// In the grid, truncation equals floor(), -0.0 included. NaN is not inside. An infinite p is not inside either, unless
// t is clamped: with VX_CYLINDER, the job's chain has dropped such points.
VX_SHARED bool vx_cell_on_axis(const struct vx_cell_map *map, int axis, float p, int32_t *cell) {
  float t = (p - map->min[axis]) / map->size[axis];
  t = t < map->least[axis] ? map->least[axis] : t;
  t = t > map->most[axis] ? map->most[axis] : t;
  bool inside = (t >= 0.0f) & (t < map->limit[axis]);
  *cell = (int32_t)(inside ? t : 0.0f);  // 1e30 does not fit int32_t
  return inside;
}

// False if the point is out of range or not finite; then `cell` is undefined.
VX_SHARED bool vx_cell_of_point(const struct vx_cell_map *map, float x, float y, float z, int32_t cell[3]) {
  bool in_x = vx_cell_on_axis(map, 0, x, &cell[0]);
  bool in_y = vx_cell_on_axis(map, 1, y, &cell[1]);
  bool in_z = vx_cell_on_axis(map, 2, z, &cell[2]);
  return in_x & in_y & in_z;
}

VX_SHARED float vx_cell_centre(const struct vx_cell_map *map, int axis, int32_t c) {
  float offset = map->size[axis] / 2.0f + map->min[axis];
  return (float)c * map->size[axis] + offset;
}

// The rank of a voxel for max_voxels; voxels with low ranks are kept. For VX_VOXELS_NEAR it has the bits of the squared
// distance from the origin to the voxel's centre, in x and y. The distance is not negative or NaN, so its bits have
// its order.
VX_SHARED uint32_t vx_voxel_rank(enum vx_voxels_by by, const struct vx_cell_map *map, const int32_t cell[3],
                                 uint32_t points) {
  if (by == VX_VOXELS_FIRST) return 0;
  if (by == VX_VOXELS_FULL) return ~points;
  float x = vx_cell_centre(map, 0, cell[0]), y = vx_cell_centre(map, 1, cell[1]);
  return vx_float_bits(x * x + y * y);
}

#endif
