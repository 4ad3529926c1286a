// Voxelization: points in, voxels out.
//
// The range is cut into a grid of cells (vx_grid_of). A point is in the cell c[a] = floor((p[a] - min[a]) / size[a]).
// Points outside the grid, and points whose x, y or z is not finite, are dropped.
//
// With VX_CYLINDER the rows are those of cylinder.h, and the range bounds rho, phi and z. Axis a has grid_shape[a]
// cells of the size (max[a] - min[a]) / (grid_shape[a] - 1), as in mmdetection3d. (p[a] - min[a]) / size[a] is clamped
// to 0 .. (max[a] - min[a]) / size[a] before it is rounded down. Such a job has a chain. It is neither sampled nor
// encoded, and has no dense maps.
//
// A voxel is a cell that holds a point. The voxels of a cloud are numbered in the order of their first points. If there
// are more than max_voxels, the voxels with the least vx_voxel_rank (grid.h) stay; of equal ranks, the lower numbers. A
// voxel keeps its first max_points_per_voxel points, or those whose vx_random_of_row (random.h) is least for the seed
// and the row of the input. Voxels are in the order of their numbers or, with VX_ORDER_KEY, of their cells. The kept
// points of a voxel stay in input order.
//
// All arithmetic is float32, in the order written here and in grid.h. The mean is the sum of the kept points in input
// order, divided once. Without a cap, the sum is taken in groups (cpu/base/sums.h).
#ifndef VOXELD_VOXELIZE_H
#define VOXELD_VOXELIZE_H

#include "kernels/encode.h"
#include "kernels/fps.h"
#include "kernels/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
  VX_MAX_POINTS_PER_VOXEL = 1024,  // the largest cap; a cap of 0 means none
  VX_MAX_VOXELS = 1 << 24,         // per cloud
  VX_MAX_BLOCK_SIZE = 32,          // maximum blocks per side of a block filter's window
};
#define VX_MAX_AXIS_CELLS INT64_C(2147483647)  // maximum cells along one axis
#define VX_MAX_GRID_CELLS (INT64_C(1) << 62)   // maximum cells of the grid times clouds of the batch

#define VX_VOXEL_TENSORS                                                                                               \
  (VX_TENSOR_BIT(VX_VOXEL_COORDS) | VX_TENSOR_BIT(VX_VOXEL_NUM_POINTS) | VX_TENSOR_BIT(VX_VOXELS) |                    \
   VX_TENSOR_BIT(VX_VOXEL_FEATURES) | VX_TENSOR_BIT(VX_PILLAR_FEATURES) | VX_TENSOR_BIT(VX_POINT_VOXEL_IDS) |          \
   VX_TENSOR_BIT(VX_VOXEL_POINT_MASK))
// Tensors that need the list of each voxel's points.
#define VX_LIST_TENSORS                                                                                                \
  (VX_TENSOR_BIT(VX_VOXELS) | VX_TENSOR_BIT(VX_VOXEL_FEATURES) | VX_TENSOR_BIT(VX_PILLAR_FEATURES) |                   \
   VX_ENCODED_TENSORS | VX_TENSOR_BIT(VX_BEV_FEATURES))
// Tensors that need an encoder. bev_features does not: it can come from voxel_features.
#define VX_ENCODED_TENSORS VX_TENSOR_BIT(VX_ENCODED_FEATURES)

enum vx_coordinates { VX_XYZ, VX_CYLINDER };
enum vx_order { VX_ORDER_FIRST, VX_ORDER_KEY };  // voxels by first appearance, or by ascending (x, y, z) in each cloud
enum vx_fill { VX_FILL_ZERO, VX_FILL_MEAN };     // what pads `voxels`

enum vx_voxels_by { VX_VOXELS_FIRST, VX_VOXELS_NEAR, VX_VOXELS_FULL };  // NEAR: near the origin; FULL: many points
enum vx_points_by { VX_POINTS_FIRST, VX_POINTS_RANDOM };

// What the caps keep.
struct vx_choice {
  enum vx_voxels_by voxels_by;
  enum vx_points_by points_by;
  int32_t seed;
};

// spconv's block filter. The grid's x-y plane is cut into blocks of factor x factor cells. On both axes, the window of
// block b is [b - size/2, b + size - size/2), clipped to the grid. A voxel stays if the heights (z) of the kept points
// in its block's window span more than `low` and less than `high` metres.
struct vx_block_filter {
  bool enabled;
  int32_t factor;  // >= 1
  int32_t size;    // 1..VX_MAX_BLOCK_SIZE, in blocks
  float low, high;
};

struct vx_voxelize {
  float range_min[3], range_max[3];  // x, y, z; metres
  float voxel_size[3];               // x, y, z; metres
  enum vx_coordinates coordinates;
  int32_t grid_shape[3];         // of VX_CYLINDER, 2 or more each; voxel_size follows from it
  int32_t max_points_per_voxel;  // 0: no cap
  int32_t max_voxels;            // per cloud
  struct vx_choice choice;
  enum vx_dtype feature_dtype;  // of VX_FEATURE_TENSORS
  enum vx_order order;
  enum vx_fill fill;
  struct vx_block_filter block_filter;
  struct vx_sampling sampling;  // of the voxels
  int32_t intensity;            // the column with the intensity, for the maps
  struct vx_encoder encoder;    // of pillars; may have 0 layers
};

// cells[a] = round((max[a] - min[a]) / size[a]), in float32, halves away from zero. With VX_CYLINDER, grid_shape.
struct vx_grid {
  int32_t cells[3];  // x, y, z
};

// VX_REFUSED if an axis has no cell or more than VX_MAX_AXIS_CELLS, or if the cells of all clouds exceed
// VX_MAX_GRID_CELLS. Expects finite ranges and finite positive voxel sizes.
VX_WARN_UNUSED enum vx_status vx_grid_of(const struct vx_voxelize *params, int32_t num_clouds, struct vx_grid *grid,
                                         struct error *error);

#ifdef __cplusplus
}
#endif
#endif
