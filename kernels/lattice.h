// A lattice of cells: a coordinate is in the cell floor((p - origin) / size) or rint(...), halves to even, in float32.
// Cells reach from -VX_LATTICE_END to VX_LATTICE_END on each axis. Functions for C and CUDA.
#ifndef VOXELD_LATTICE_H
#define VOXELD_LATTICE_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "kernels/host_device.h"

#define VX_LATTICE_END 1048575  // 21 bits per axis, so a key has 63 bits

enum vx_lattice_cells { VX_CELLS_FLOOR, VX_CELLS_NEAREST };

// The cell of coordinate p, plus VX_LATTICE_END. False if p is beyond the lattice. (t + 12582912) - 12582912 is
// rint(t), because 12582912 = 1.5 * 2^23.
VX_SHARED bool vx_lattice_cell(float origin, float size, enum vx_lattice_cells cells, float p, int32_t *cell) {
  float t = (p - origin) / size;
  bool inside = cells == VX_CELLS_NEAREST ? fabsf(t) < VX_LATTICE_END + 0.5f
                                          : (t >= -(float)VX_LATTICE_END) & (t < VX_LATTICE_END + 1.0f);
  t = inside ? t : 0.0f;
  if (cells == VX_CELLS_NEAREST) {
    *cell = (int32_t)((t + 12582912.0f) - 12582912.0f) + VX_LATTICE_END;
  } else {
    int32_t whole = (int32_t)t;
    *cell = whole - ((float)whole > t) + VX_LATTICE_END;
  }
  return inside;
}

#endif
