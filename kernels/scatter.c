// See scatter.h.
#include "kernels/scatter.h"

#include "kernels/voxelize.h"

enum vx_status vx_scatter_cells(const struct vx_scatter *params, int32_t num_clouds, int64_t *cells,
                                struct error *error) {
  const int32_t *size = params->grid_size;
  int64_t plane = (int64_t)size[0] * size[1], height = (int64_t)size[2] * num_clouds;
  if (plane < 1 || height < 1 || plane > VX_MAX_GRID_CELLS / height) {
    return vx_refuse(error, "a grid of %d x %d x %d cells for each of %d clouds must have 1 to 2^62 cells in all",
                     (int)size[0], (int)size[1], (int)size[2], (int)num_clouds);
  }
  *cells = plane * size[2];
  return VX_OK;
}
