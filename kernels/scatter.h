// Scatter: rows of features in, a dense map out.
//
// voxel_coords gives the cell of each row: batch, z, y, x. bev_features is [B, C * nz, ny, nx]. Value c of a row's
// features goes, bit for bit, to [batch, c * nz + z, y, x]. All other values are 0. If nz is 1, this is OpenPCDet's
// PointPillarScatter; otherwise its HeightCompression.
//
// Each row has one fate, the first of these that applies:
//   out_of_range  its batch, z, y or x is negative, or not below B, nz, ny or nx
//   duplicate     an earlier row has the same cell
//   kept          otherwise
#ifndef VOXELD_SCATTER_H
#define VOXELD_SCATTER_H

#include "kernels/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

#define VX_SCATTER_TENSORS VX_TENSOR_BIT(VX_BEV_FEATURES)

// The inputs, in this order: `features` [V, C] float32 or float16, and `voxel_coords` [V, 4] int32.
enum { VX_FEATURES, VX_COORDS };

struct vx_scatter {
  int32_t grid_size[3];  // nx, ny, nz: 1 or more each
};

// Sets `cells` to the number of cells of one cloud's grid. VX_REFUSED if the grid is empty, or if the grids of all
// clouds have more than VX_MAX_GRID_CELLS cells.
VX_WARN_UNUSED enum vx_status vx_scatter_cells(const struct vx_scatter *params, int32_t num_clouds, int64_t *cells,
                                               struct error *error);

#ifdef __cplusplus
}
#endif
#endif
