// The rings of a scan: each has the points of one beam of the sensor.
//
// A column gives the number of a point's ring, from 0 to VX_MAX_RING. KITTI's files have no such column: there the
// number is the count of turns in the cloud, up to the point's row. A row of the body with x > 0 and y >= 0 begins a
// turn if the row before it has y < 0. A point whose number is not a whole number from 0 to VX_MAX_RING
// has no ring.
//
// Pure functions for C and CUDA.
#ifndef VOXELD_RINGS_H
#define VOXELD_RINGS_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "kernels/host_device.h"

enum { VX_MAX_RING = 1023, VX_NO_RING = VX_MAX_RING + 1, VX_KITTI_RINGS = -1 };  // VX_KITTI_RINGS: in place of a column

// The ring for a value of the column; VX_NO_RING: none.
VX_SHARED int32_t vx_ring_of(float value) {
  int32_t ring = value >= 0.0f && value <= VX_MAX_RING ? (int32_t)value : 0;
  return (float)ring == value ? ring : VX_NO_RING;
}

// The distance from the sensor.
VX_SHARED float vx_distance_of(float x, float y, float z) { return sqrtf((x * x + y * y) + z * z); }

// Whether a row of the body begins a turn. `before`: the y of the row before it in the cloud.
VX_SHARED bool vx_is_turn(float before, float x, float y) { return before < 0.0f && y >= 0.0f && x > 0.0f; }

#endif
