// The table of output tensors, and their layout in one block of output memory.
#ifndef VOXELD_TENSOR_H
#define VOXELD_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/error.h"
#include "kernels/number.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { VX_TENSOR_ALIGNMENT = 64 };  // bytes
enum { VX_MAX_RANK = 4 };

enum vx_tensor {
  VX_VOXEL_COORDS,
  VX_VOXEL_NUM_POINTS,
  VX_VOXELS,
  VX_VOXEL_FEATURES,
  VX_PILLAR_FEATURES,
  VX_POINT_VOXEL_IDS,
  VX_VOXEL_POINT_MASK,
  VX_SAMPLED_INDICES,
  VX_SAMPLED_POINTS,
  VX_SAMPLED_DISTANCES,
  VX_KEPT_INDICES,
  VX_DECODED_BOXES,
  VX_DECODED_SCORES,
  VX_DECODED_LABELS,
  VX_BOX_INDICES,
  VX_BOX_COUNTS,
  VX_TRACK_IDS,
  VX_ENCODED_FEATURES,
  VX_HEAD_CLS_PREDS,
  VX_HEAD_BOX_PREDS,
  VX_HEAD_DIR_CLS_PREDS,
  VX_HEAD_HEATMAP,
  VX_HEAD_CENTER,
  VX_HEAD_HEIGHT,
  VX_HEAD_DIM,
  VX_HEAD_ROT,
  VX_HEAD_VEL,
  VX_HEAD_IOU,
  VX_SPARSE_COORDS,
  VX_SPARSE_FEATURES,
  VX_GRID_COORD,
  VX_SERIALIZED_CODE,
  VX_SERIALIZED_ORDER,
  VX_SERIALIZED_INVERSE,
  VX_POOL_CLUSTER,
  VX_POOL_INDICES,
  VX_POOL_INDPTR,
  VX_POOL_HEAD_INDICES,
  VX_POOL_GRID_COORD,
  VX_POOL_SERIALIZED_CODE,
  VX_POOL_SERIALIZED_ORDER,
  VX_POOL_SERIALIZED_INVERSE,
  VX_BEV_FEATURES,
  VX_OCCUPANCY,
  VX_OCCUPANCY_COUNTS,
  VX_OCCUPANCY_PACKED,
  VX_BEV_MAX_HEIGHT,
  VX_BEV_MIN_HEIGHT,
  VX_BEV_MAX_INTENSITY,
  VX_BEV_TOP_INTENSITY,
  VX_BEV_DENSITY,
  VX_RANGE_IMAGE,
  VX_RANGE_INDICES,
  VX_RANGE_MASK,
  VX_POINT_PIXELS,
  VX_POINT_RANGES,
  VX_PIXEL_COORDS,
  VX_POINT_PIXEL_ROWS,
  VX_LEFT_POINTS,  // the tensors of a chain come last
  VX_POINT_INDICES,
  VX_POINT_ROWS,
  VX_POINT_FATES,
  VX_POINT_STEPS,
  VX_TENSOR_COUNT,
};
typedef uint64_t vx_tensor_set;  // VX_TENSOR_BITs
#define VX_TENSOR_BIT(tensor) (UINT64_C(1) << (tensor))

// The tensors that have a job's feature_dtype.
#define VX_FEATURE_TENSORS                                                                                             \
  (VX_TENSOR_BIT(VX_VOXEL_FEATURES) | VX_TENSOR_BIT(VX_PILLAR_FEATURES) | VX_TENSOR_BIT(VX_ENCODED_FEATURES) |         \
   VX_TENSOR_BIT(VX_BEV_FEATURES))

// What determines the length of a dimension of an input or an output.
enum vx_extent {
  VX_EXTENT_NONE,
  VX_EXTENT_ROWS,      // items in the first input, of all clouds
  VX_EXTENT_COLUMNS,   // columns of a point
  VX_EXTENT_VOXELS,    // voxels of all clouds
  VX_EXTENT_CAP,       // maximum points that a voxel keeps
  VX_EXTENT_COORDS,    // batch, z, y, x
  VX_EXTENT_PILLAR,    // a point's columns, its offsets from the mean, its offsets from the centre
  VX_EXTENT_BATCH,     // clouds; left out if samples are stacked
  VX_EXTENT_SAMPLES,   // samples of one cloud, or of all clouds if stacked
  VX_EXTENT_KEPT,      // kept rows of all clouds
  VX_EXTENT_LEFT,      // rows of all clouds that a chain left
  VX_EXTENT_MATRICES,  // one, or one per cloud
  VX_EXTENT_SIDE,      // side of a matrix
  VX_EXTENT_BOX,       // x, y, z, dx, dy, dz, heading
  VX_EXTENT_DECODED,   // VX_EXTENT_BOX, then the velocity along x and y if boxes have one
  VX_EXTENT_HEIGHT,    // rows of a map, along y
  VX_EXTENT_WIDTH,     // cells of a map's row, along x
  VX_EXTENT_LOGITS,    // classes of all anchors of a cell
  VX_EXTENT_OFFSETS,   // box values of all anchors of a cell
  VX_EXTENT_BINS,      // direction bins of all anchors of a cell
  VX_EXTENT_CLOUDS,    // clouds, even if samples are stacked
  VX_EXTENT_DEPTH,     // cells of a grid along z
  VX_EXTENT_CHANNELS,  // channels of a scattered map: the values of a voxel, each at every z
  VX_EXTENT_PACKED,    // bytes that hold a bit for each cell along x
  VX_EXTENT_TASKS,     // tasks of a head; then 2 and 3 values per task
  VX_EXTENT_TASKS_2,
  VX_EXTENT_TASKS_3,
  VX_EXTENT_HEAD_HEIGHT,  // of a map that a network makes, or of a range image
  VX_EXTENT_HEAD_WIDTH,
  VX_EXTENT_VALUES,       // values in a row of features: a point's columns, an encoder's width, or a backbone's
  VX_EXTENT_SPARSE,       // rows of a backbone's last level, of all clouds
  VX_EXTENT_AXES,         // x, y, z; or batch, row, column
  VX_EXTENT_ROW,          // columns of the rows that become voxels
  VX_EXTENT_ORDERS,       // curves of a serialization
  VX_EXTENT_POOLED,       // rows of all stages of pooling, added up
  VX_EXTENT_POOL_INPUTS,  // rows before each stage, added up
  VX_EXTENT_POOL_ENDS,    // each stage's rows plus one, added up
  VX_EXTENT_IMAGE_CHANNELS,
  VX_EXTENT_PIXEL,  // row, column
};

// The sizes that determine the shapes of a job's tensors. Rows and samples are those of all clouds.
struct vx_sizes {
  int64_t clouds, rows, columns;
  int64_t row;          // columns of the rows that become voxels; more than `columns` with VX_CYLINDER
  int64_t values;       // values in a row of features
  int64_t voxels, cap;  // cap 0: no cap
  int64_t sparse;       // rows of a backbone's last level
  int64_t samples;
  int64_t kept, left;             // rows
  int64_t matrices;               // 1 or clouds
  int64_t height, width, depth;   // of a map or a grid
  int64_t logits, offsets, bins;  // channels of a head's maps
  int64_t head_height, head_width;
  int64_t tasks;                                 // of a centre head
  int64_t orders;                                // curves of a serialization
  int64_t pools, pooled, pool_inputs;            // stages of pooling; new rows, and input rows, of all stages
  int64_t image_channels;                        // of a range image
  int64_t decoded;                               // values of a decoded box
  bool stacked;                                  // the samples of all clouds form one list
  vx_tensor_set narrow_tensors[VX_FLOAT_TYPES];  // the tensors of each narrow type; others have their row's dtype
};

int64_t vx_extent_of(enum vx_extent extent, const struct vx_sizes *sizes);

struct vx_tensor_row {
  const char *name;
  enum vx_dtype dtype;                  // unless vx_sizes.narrow_tensors has another
  enum vx_extent extents[VX_MAX_RANK];  // of the dimensions, outermost first; VX_EXTENT_NONE after the last
};
extern const struct vx_tensor_row vx_tensors[VX_TENSOR_COUNT];

enum vx_dtype vx_tensor_dtype(enum vx_tensor tensor, const struct vx_sizes *sizes);
// The tensors that have a narrow type.
vx_tensor_set vx_narrow_tensors(const struct vx_sizes *sizes);

struct vx_shape {
  enum vx_dtype dtype;
  int rank;                   // 1..VX_MAX_RANK
  int64_t dims[VX_MAX_RANK];  // outermost first
  size_t bytes;
};

// An input tensor of a job.
struct vx_input {
  enum vx_dtype dtype;
  int rank;                   // 0: absent
  int64_t dims[VX_MAX_RANK];  // outermost first
  const void *data;           // little-endian; `points` is 64-byte aligned
};

// Tensors in the output block. Each begins at a multiple of VX_TENSOR_ALIGNMENT bytes.
struct vx_layout {
  vx_tensor_set tensors;                   // that are present
  struct vx_shape shape[VX_TENSOR_COUNT];  // of each tensor that is present
  size_t offset[VX_TENSOR_COUNT];          // from the block's start
  size_t bytes;                            // from the block's start to the end of its last tensor
};

// VX_REFUSED if the block would not fit a size_t, or if a tensor needs a cap and `sizes` has none.
VX_WARN_UNUSED enum vx_status vx_layout_of(vx_tensor_set tensors, const struct vx_sizes *sizes,
                                           struct vx_layout *layout, struct error *error);
// Lays out only the tensors that have no pointer in vx_job.output_ptrs.
void vx_layout_pack(struct vx_layout *layout, void *const *output_ptrs);

#ifdef __cplusplus
}
#endif
#endif
