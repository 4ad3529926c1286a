// Tensors: their types, the table of the output tensors, and their layout in the one block of output memory.
//
// A tensor is one row of one table (tensor.c): its name, its dtype, and the extent of each dimension.
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
  VX_MOVED_POINTS,
  VX_POINT_INDICES,
  VX_KEPT_INDICES,
  VX_DECODED_BOXES,
  VX_DECODED_SCORES,
  VX_DECODED_LABELS,
  VX_BOX_INDICES,
  VX_BOX_COUNTS,
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
  VX_BEV_FEATURES,
  VX_OCCUPANCY,
  VX_OCCUPANCY_COUNTS,
  VX_OCCUPANCY_PACKED,
  VX_BEV_MAX_HEIGHT,
  VX_BEV_MIN_HEIGHT,
  VX_BEV_MAX_INTENSITY,
  VX_BEV_TOP_INTENSITY,
  VX_BEV_DENSITY,
  VX_TENSOR_COUNT,
};
typedef uint64_t vx_tensor_set;  // VX_TENSOR_BITs
#define VX_TENSOR_BIT(tensor) (UINT64_C(1) << (tensor))

// Those that are of a job's feature_dtype, all together.
#define VX_FEATURE_TENSORS                                                                                             \
  (VX_TENSOR_BIT(VX_VOXEL_FEATURES) | VX_TENSOR_BIT(VX_PILLAR_FEATURES) | VX_TENSOR_BIT(VX_ENCODED_FEATURES) |         \
   VX_TENSOR_BIT(VX_BEV_FEATURES))

const char *vx_tensor_name(enum vx_tensor tensor);

// What the length of a dimension is, of an input or an output.
enum vx_extent {
  VX_EXTENT_NONE,
  VX_EXTENT_ROWS,      // of the first input: the points, or whatever it has, of all clouds
  VX_EXTENT_COLUMNS,   // of a point
  VX_EXTENT_VOXELS,    // of all clouds
  VX_EXTENT_CAP,       // points that a voxel keeps
  VX_EXTENT_COORDS,    // batch, z, y, x
  VX_EXTENT_PILLAR,    // a point's columns, its offsets from the mean, its offsets from the centre
  VX_EXTENT_BATCH,     // clouds; left out if samples are stacked
  VX_EXTENT_SAMPLES,   // of one cloud, or of all if they are stacked
  VX_EXTENT_KEPT,      // rows of all clouds
  VX_EXTENT_MATRICES,  // one, or one per cloud
  VX_EXTENT_SIDE,      // of a matrix
  VX_EXTENT_BOX,       // x, y, z, dx, dy, dz, heading
  VX_EXTENT_DECODED,   // likewise; then perhaps a velocity along x and y
  VX_EXTENT_HEIGHT,    // of a map: its rows, along y
  VX_EXTENT_WIDTH,     // likewise: its cells along x
  VX_EXTENT_LOGITS,    // of a cell: classes of all anchors
  VX_EXTENT_OFFSETS,   // of a cell: a box for each anchor
  VX_EXTENT_BINS,      // of a cell: directions of all anchors
  VX_EXTENT_CLOUDS,    // as VX_EXTENT_BATCH, but never left out
  VX_EXTENT_DEPTH,     // of a grid: its cells along z
  VX_EXTENT_CHANNELS,  // of a scattered map: the values of a voxel, each at every z
  VX_EXTENT_PACKED,    // bytes that hold a bit for each cell along x
  VX_EXTENT_TASKS,     // of a cell: one value for each task; then two, and three
  VX_EXTENT_TASKS_2,
  VX_EXTENT_TASKS_3,
  VX_EXTENT_HEAD_HEIGHT,  // of a map that a network makes
  VX_EXTENT_HEAD_WIDTH,
  VX_EXTENT_VALUES,  // of a voxel's row of features: a point's columns, or an encoder's width
};

// The sizes that the shapes of a job's tensors follow from. All counts are those of all clouds together.
struct vx_sizes {
  int64_t clouds, rows, columns;
  int64_t values;       // of a row of features
  int64_t voxels, cap;  // a cap of 0 is none
  int64_t samples;
  int64_t kept;                   // rows
  int64_t matrices;               // 1 or clouds
  int64_t height, width, depth;   // of a map or a grid
  int64_t logits, offsets, bins;  // channels of a head's maps
  int64_t head_height, head_width;
  int64_t tasks;                                 // of a head
  int64_t decoded;                               // values of a decoded box
  bool stacked;                                  // the clouds' samples follow on each other
  vx_tensor_set narrow_tensors[VX_FLOAT_TYPES];  // of each narrow type: those that are of this type, not float32
};

int64_t vx_extent_of(enum vx_extent extent, const struct vx_sizes *sizes);

// The extents of the tensor's dimensions, outermost first: up to VX_MAX_RANK, or to VX_EXTENT_NONE.
const enum vx_extent *vx_tensor_extents(enum vx_tensor tensor);
enum vx_dtype vx_tensor_dtype(enum vx_tensor tensor, const struct vx_sizes *sizes);
// Those of any narrow type.
vx_tensor_set vx_narrow_tensors(const struct vx_sizes *sizes);

struct vx_shape {
  enum vx_dtype dtype;
  int rank;                   // 1..VX_MAX_RANK
  int64_t dims[VX_MAX_RANK];  // outermost first
  size_t bytes;
};

// A tensor that a job computes from.
struct vx_input {
  enum vx_dtype dtype;
  int rank;                   // 0: not given
  int64_t dims[VX_MAX_RANK];  // outermost first
  const void *data;           // little-endian; that of `points` is 64-byte aligned
};

// Where each requested tensor lies in the one output block. Each begins at a multiple of VX_TENSOR_ALIGNMENT bytes.
struct vx_layout {
  vx_tensor_set tensors;                   // those present
  struct vx_shape shape[VX_TENSOR_COUNT];  // of those present
  size_t offset[VX_TENSOR_COUNT];          // from the block's start
  size_t bytes;                            // of the whole block, up to the end of its last tensor
};

// Lays out the tensors whose bits are in `tensors`. VX_REFUSED if the block would not fit a size_t.
VX_WARN_UNUSED enum vx_status vx_layout_of(vx_tensor_set tensors, const struct vx_sizes *sizes,
                                           struct vx_layout *layout, struct error *error);
// Lays out those without a pointer in vx_job.output_ptrs, as if there were no others.
void vx_layout_pack(struct vx_layout *layout, void *const *output_ptrs);

#ifdef __cplusplus
}
#endif
#endif
