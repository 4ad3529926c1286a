// See voxelize.h. Pure function.
#include "kernels/voxelize.h"

#include <math.h>

enum vx_status vx_grid_of(const struct vx_voxelize *params, int32_t num_clouds, struct vx_grid *grid,
                          struct error *error) {
  for (int axis = 0; axis < 3; axis++) {
    float cells = params->coordinates == VX_CYLINDER
                      ? (float)params->grid_shape[axis]
                      : roundf((params->range_max[axis] - params->range_min[axis]) / params->voxel_size[axis]);
    if (!(cells >= 1.0f))
      return vx_refuse(error, "the grid has no cell along %c: the range is shorter than half a voxel", "xyz"[axis]);
    if ((double)cells > (double)VX_MAX_AXIS_CELLS) {
      return vx_refuse(error, "the grid has %.0f cells along %c; at most %lld are possible", (double)cells, "xyz"[axis],
                       (long long)VX_MAX_AXIS_CELLS);
    }
    grid->cells[axis] = (int32_t)cells;
  }
  // The product of two axes fits in 62 bits; the product of three may not fit in 64.
  int64_t plane = (int64_t)grid->cells[0] * grid->cells[1];
  int64_t height = (int64_t)grid->cells[2] * num_clouds;
  if (plane > VX_MAX_GRID_CELLS / height) {
    return vx_refuse(error, "a grid of %d x %d x %d cells for each of %d clouds has more than 2^62 cells in all",
                     (int)grid->cells[0], (int)grid->cells[1], (int)grid->cells[2], (int)num_clouds);
  }
  return VX_OK;
}
