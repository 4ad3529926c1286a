// Radius outlier, a step: drops points with few neighbours.
//
// A point stays if at least min_neighbors other points of its cloud have a squared distance (near.h) of at most
// radius * radius, in float32. With the axes `xy`, z counts as 0. Other points have the fate radius_outlier.
//
// Both backends search in cells whose edge is 0.55 of the radius. The diagonal of a cell is shorter than the radius, so
// a point whose cell has more than min_neighbors points stays without a test. The cells of neighbours are at most
// VX_NEAR_CELLS apart on each axis, because 1 / 0.55 < 2. So the number of tests is at most a multiple of
// min_neighbors * N, wherever the points are.
#ifndef VOXELD_STEP_RADIUS_OUTLIER_H
#define VOXELD_STEP_RADIUS_OUTLIER_H

#include <math.h>

#include "kernels/half.h"
#include "kernels/step.h"

enum { VX_MAX_NEIGHBORS = 64, VX_NEAR_CELLS = 2 };

// Within these limits radius * radius is a normal float, and cells have numbers of 32 bits.
#define VX_LEAST_RADIUS 0.001f
#define VX_MOST_RADIUS 10000.0f

enum vx_radius_axes { VX_RADIUS_XYZ, VX_RADIUS_XY };

struct vx_radius_outlier {
  float radius;           // VX_LEAST_RADIUS .. VX_MOST_RADIUS
  int32_t min_neighbors;  // 1 .. VX_MAX_NEIGHBORS
  enum vx_radius_axes axes;
};

#ifdef __cplusplus
extern "C" {
#endif
extern const struct vx_step_row vx_step_radius_outlier;
#ifdef __cplusplus
}
#endif

// How coordinates become cells. Up to VX_NEAR_END cells on both sides of 0, the number of a cell is floor(p * scale).
// Farther away, adjacent floats are more than a cell apart, so each float is a cell of its own.
#define VX_NEAR_END 16777216
struct vx_near_map {
  double scale;  // cells per metre
  uint32_t end;  // bits of the least float that is at VX_NEAR_END cells or beyond
  bool flat;     // z counts as 0
};

static inline struct vx_near_map vx_near_map_of(const struct vx_radius_outlier *params) {
  struct vx_near_map map = {1 / (0.55 * (double)params->radius), 0, params->axes == VX_RADIUS_XY};
  map.end = vx_float_bits((float)(VX_NEAR_END / map.scale));
  while ((double)vx_bits_float(map.end) * map.scale >= VX_NEAR_END) map.end--;
  map.end++;
  return map;
}

VX_SHARED int32_t vx_near_cell_on_axis(const struct vx_near_map *map, float p) {
  double t = (double)p * map->scale;
  if (fabs(t) < VX_NEAR_END) return (int32_t)t - ((int32_t)t > t);  // rounded down
  int32_t beyond = VX_NEAR_END + (int32_t)(vx_float_bits(fabsf(p)) - map->end);
  return p < 0 ? -1 - beyond : beyond;
}

VX_SHARED void vx_near_cell(const struct vx_near_map *map, const float at[3], int32_t cell[3]) {
  cell[0] = vx_near_cell_on_axis(map, at[0]);
  cell[1] = vx_near_cell_on_axis(map, at[1]);
  cell[2] = map->flat ? 0 : vx_near_cell_on_axis(map, at[2]);
}

#endif
