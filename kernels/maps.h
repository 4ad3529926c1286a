// Maps of a voxelization: dense tensors over its grid. They use all points in range, before caps and the block filter.
//
// An empty cell has 0 in every map. The maps of cells, [B, nz, ny, nx]:
//   occupancy         1
//   occupancy_packed  the same as bits, [B, nz, ny, ceil(nx / 8)]: cell x is bit x % 8 of byte x / 8; bit 0 is the
//                     lowest
//   occupancy_counts  the number of points in the cell
// A pillar is all cells with the same x and y. The maps of pillars, [B, ny, nx]:
//   bev_max_height     the largest z of its points
//   bev_min_height     the smallest z of its points
//   bev_max_intensity  the largest finite intensity of its points; 0 if none is finite
//   bev_top_intensity  the intensity, bit for bit, of the point with the largest z; of several, the first
//   bev_density        vx_density of the number of its points
// In the two heights and bev_max_intensity, -0 becomes 0. Points at z = -0 and 0 are equally high.
#ifndef VOXELD_MAPS_H
#define VOXELD_MAPS_H

#include "kernels/host_device.h"
#include "kernels/tensor.h"

#define VX_CELL_MAPS                                                                                                   \
  (VX_TENSOR_BIT(VX_OCCUPANCY) | VX_TENSOR_BIT(VX_OCCUPANCY_COUNTS) | VX_TENSOR_BIT(VX_OCCUPANCY_PACKED))
#define VX_INTENSITY_MAPS (VX_TENSOR_BIT(VX_BEV_MAX_INTENSITY) | VX_TENSOR_BIT(VX_BEV_TOP_INTENSITY))
#define VX_PILLAR_MAPS                                                                                                 \
  (VX_INTENSITY_MAPS | VX_TENSOR_BIT(VX_BEV_MAX_HEIGHT) | VX_TENSOR_BIT(VX_BEV_MIN_HEIGHT) |                           \
   VX_TENSOR_BIT(VX_BEV_DENSITY))
// bev_features is scatter.h's map of encoded_features if there is an encoder, else of voxel_features.
#define VX_DENSE_TENSORS (VX_CELL_MAPS | VX_PILLAR_MAPS | VX_TENSOR_BIT(VX_BEV_FEATURES))

// min(1, ln(points + 1) / ln 64), rounded to the nearest float32.
VX_SHARED float vx_density(int32_t points) {
  static const float densities[63] = {
      0.0f,           0x1.555556p-3f, 0x1.0e8012p-2f, 0x1.555556p-2f, 0x1.8c4696p-2f, 0x1.b92abcp-2f, 0x1.df1f36p-2f,
      0x1p-1f,        0x1.0e8012p-1f, 0x1.1b78ap-1f,  0x1.27347p-1f,  0x1.31eab4p-1f, 0x1.3bc556p-1f, 0x1.44e4fp-1f,
      0x1.4d6354p-1f, 0x1.555556p-1f, 0x1.5ccbfcp-1f, 0x1.63d566p-1f, 0x1.6a7d64p-1f, 0x1.70cdf6p-1f, 0x1.76cfa4p-1f,
      0x1.7c89c6p-1f, 0x1.8202b8p-1f, 0x1.874008p-1f, 0x1.8c4696p-1f, 0x1.911aacp-1f, 0x1.95c01ap-1f, 0x1.9a3a46p-1f,
      0x1.9e8c36p-1f, 0x1.a2b8aap-1f, 0x1.a6c212p-1f, 0x1.aaaaaap-1f, 0x1.ae7478p-1f, 0x1.b22152p-1f, 0x1.b5b2e6p-1f,
      0x1.b92abcp-1f, 0x1.bc8a3ep-1f, 0x1.bfd2bap-1f, 0x1.c3056p-1f,  0x1.c6234cp-1f, 0x1.c92d82p-1f, 0x1.cc24f8p-1f,
      0x1.cf0a9p-1f,  0x1.d1df1ap-1f, 0x1.d4a35cp-1f, 0x1.d7580ep-1f, 0x1.d9fdd8p-1f, 0x1.dc955ep-1f, 0x1.df1f36p-1f,
      0x1.e19becp-1f, 0x1.e40c06p-1f, 0x1.e67002p-1f, 0x1.e8c854p-1f, 0x1.eb157p-1f,  0x1.ed57bap-1f, 0x1.ef8f9ap-1f,
      0x1.f1bd6ep-1f, 0x1.f3e18cp-1f, 0x1.f5fc4cp-1f, 0x1.f80dfep-1f, 0x1.fa16fp-1f,  0x1.fc1768p-1f, 0x1.fe0facp-1f,
  };
  return points < 63 ? densities[points] : 1.0f;
}

#endif
