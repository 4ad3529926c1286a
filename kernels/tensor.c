// See tensor.h. Pure functions over constant tables. Any thread.
#include "kernels/tensor.h"

#define GRID(line)                                                                                                     \
  { VX_EXTENT_CLOUDS, VX_EXTENT_DEPTH, VX_EXTENT_HEIGHT, line }
#define PLANE                                                                                                          \
  { VX_EXTENT_CLOUDS, VX_EXTENT_HEIGHT, VX_EXTENT_WIDTH }

#define IMAGE                                                                                                          \
  { VX_EXTENT_CLOUDS, VX_EXTENT_HEAD_HEIGHT, VX_EXTENT_HEAD_WIDTH }
#define HEAD(channels)                                                                                                 \
  { VX_EXTENT_CLOUDS, VX_EXTENT_HEAD_HEIGHT, VX_EXTENT_HEAD_WIDTH, channels }

const struct vx_tensor_row vx_tensors[VX_TENSOR_COUNT] = {
    [VX_VOXEL_COORDS] = {"voxel_coords", VX_INT32, {VX_EXTENT_VOXELS, VX_EXTENT_COORDS}},
    [VX_VOXEL_NUM_POINTS] = {"voxel_num_points", VX_INT32, {VX_EXTENT_VOXELS}},
    [VX_VOXELS] = {"voxels", VX_FLOAT32, {VX_EXTENT_VOXELS, VX_EXTENT_CAP, VX_EXTENT_ROW}},
    [VX_VOXEL_FEATURES] = {"voxel_features", VX_FLOAT32, {VX_EXTENT_VOXELS, VX_EXTENT_ROW}},
    [VX_PILLAR_FEATURES] = {"pillar_features", VX_FLOAT32, {VX_EXTENT_VOXELS, VX_EXTENT_CAP, VX_EXTENT_PILLAR}},
    [VX_POINT_VOXEL_IDS] = {"point_voxel_ids", VX_INT32, {VX_EXTENT_ROWS}},
    [VX_VOXEL_POINT_MASK] = {"voxel_point_mask", VX_UINT8, {VX_EXTENT_VOXELS, VX_EXTENT_CAP}},
    [VX_SAMPLED_INDICES] = {"sampled_indices", VX_INT32, {VX_EXTENT_BATCH, VX_EXTENT_SAMPLES}},
    [VX_SAMPLED_POINTS] = {"sampled_points", VX_FLOAT32, {VX_EXTENT_BATCH, VX_EXTENT_SAMPLES, VX_EXTENT_COLUMNS}},
    [VX_SAMPLED_DISTANCES] = {"sampled_distances", VX_FLOAT32, {VX_EXTENT_BATCH, VX_EXTENT_SAMPLES}},
    [VX_KEPT_INDICES] = {"kept_indices", VX_INT32, {VX_EXTENT_KEPT}},
    [VX_DECODED_BOXES] = {"boxes", VX_FLOAT32, {VX_EXTENT_KEPT, VX_EXTENT_DECODED}},
    [VX_DECODED_SCORES] = {"scores", VX_FLOAT32, {VX_EXTENT_KEPT}},
    [VX_DECODED_LABELS] = {"labels", VX_INT32, {VX_EXTENT_KEPT}},
    [VX_BOX_INDICES] = {"box_indices", VX_INT32, {VX_EXTENT_KEPT}},
    [VX_BOX_COUNTS] = {"box_counts", VX_INT32, {VX_EXTENT_BATCH}},
    [VX_TRACK_IDS] = {"track_ids", VX_INT64, {VX_EXTENT_KEPT}},
    [VX_ENCODED_FEATURES] = {"encoded_features", VX_FLOAT32, {VX_EXTENT_VOXELS, VX_EXTENT_VALUES}},
    [VX_HEAD_CLS_PREDS] = {"cls_preds", VX_FLOAT32, HEAD(VX_EXTENT_LOGITS)},
    [VX_HEAD_BOX_PREDS] = {"box_preds", VX_FLOAT32, HEAD(VX_EXTENT_OFFSETS)},
    [VX_HEAD_DIR_CLS_PREDS] = {"dir_cls_preds", VX_FLOAT32, HEAD(VX_EXTENT_BINS)},
    [VX_HEAD_HEATMAP] = {"heatmap", VX_FLOAT32, HEAD(VX_EXTENT_LOGITS)},
    [VX_HEAD_CENTER] = {"center", VX_FLOAT32, HEAD(VX_EXTENT_TASKS_2)},
    [VX_HEAD_HEIGHT] = {"height", VX_FLOAT32, HEAD(VX_EXTENT_TASKS)},
    [VX_HEAD_DIM] = {"dim", VX_FLOAT32, HEAD(VX_EXTENT_TASKS_3)},
    [VX_HEAD_ROT] = {"rot", VX_FLOAT32, HEAD(VX_EXTENT_TASKS_2)},
    [VX_HEAD_VEL] = {"vel", VX_FLOAT32, HEAD(VX_EXTENT_TASKS_2)},
    [VX_HEAD_IOU] = {"iou", VX_FLOAT32, HEAD(VX_EXTENT_TASKS)},
    [VX_SPARSE_COORDS] = {"sparse_coords", VX_INT32, {VX_EXTENT_SPARSE, VX_EXTENT_COORDS}},
    [VX_SPARSE_FEATURES] = {"sparse_features", VX_FLOAT32, {VX_EXTENT_SPARSE, VX_EXTENT_VALUES}},
    [VX_GRID_COORD] = {"grid_coord", VX_INT32, {VX_EXTENT_LEFT, VX_EXTENT_AXES}},
    [VX_SERIALIZED_CODE] = {"serialized_code", VX_INT64, {VX_EXTENT_ORDERS, VX_EXTENT_LEFT}},
    [VX_SERIALIZED_ORDER] = {"serialized_order", VX_INT32, {VX_EXTENT_ORDERS, VX_EXTENT_LEFT}},
    [VX_SERIALIZED_INVERSE] = {"serialized_inverse", VX_INT32, {VX_EXTENT_ORDERS, VX_EXTENT_LEFT}},
    [VX_POOL_CLUSTER] = {"pool_cluster", VX_INT32, {VX_EXTENT_POOL_INPUTS}},
    [VX_POOL_INDICES] = {"pool_indices", VX_INT32, {VX_EXTENT_POOL_INPUTS}},
    [VX_POOL_INDPTR] = {"pool_indptr", VX_INT32, {VX_EXTENT_POOL_ENDS}},
    [VX_POOL_HEAD_INDICES] = {"pool_head_indices", VX_INT32, {VX_EXTENT_POOLED}},
    [VX_POOL_GRID_COORD] = {"pool_grid_coord", VX_INT32, {VX_EXTENT_POOLED, VX_EXTENT_AXES}},
    [VX_POOL_SERIALIZED_CODE] = {"pool_serialized_code", VX_INT64, {VX_EXTENT_ORDERS, VX_EXTENT_POOLED}},
    [VX_POOL_SERIALIZED_ORDER] = {"pool_serialized_order", VX_INT32, {VX_EXTENT_ORDERS, VX_EXTENT_POOLED}},
    [VX_POOL_SERIALIZED_INVERSE] = {"pool_serialized_inverse", VX_INT32, {VX_EXTENT_ORDERS, VX_EXTENT_POOLED}},
    [VX_BEV_FEATURES] = {"bev_features",
                         VX_FLOAT32,
                         {VX_EXTENT_CLOUDS, VX_EXTENT_CHANNELS, VX_EXTENT_HEIGHT, VX_EXTENT_WIDTH}},
    [VX_OCCUPANCY] = {"occupancy", VX_UINT8, GRID(VX_EXTENT_WIDTH)},
    [VX_OCCUPANCY_COUNTS] = {"occupancy_counts", VX_INT32, GRID(VX_EXTENT_WIDTH)},
    [VX_OCCUPANCY_PACKED] = {"occupancy_packed", VX_UINT8, GRID(VX_EXTENT_PACKED)},
    [VX_BEV_MAX_HEIGHT] = {"bev_max_height", VX_FLOAT32, PLANE},
    [VX_BEV_MIN_HEIGHT] = {"bev_min_height", VX_FLOAT32, PLANE},
    [VX_BEV_MAX_INTENSITY] = {"bev_max_intensity", VX_FLOAT32, PLANE},
    [VX_BEV_TOP_INTENSITY] = {"bev_top_intensity", VX_FLOAT32, PLANE},
    [VX_BEV_DENSITY] = {"bev_density", VX_FLOAT32, PLANE},
    [VX_RANGE_IMAGE] = {"range_image",
                        VX_FLOAT32,
                        {VX_EXTENT_CLOUDS, VX_EXTENT_IMAGE_CHANNELS, VX_EXTENT_HEAD_HEIGHT, VX_EXTENT_HEAD_WIDTH}},
    [VX_RANGE_INDICES] = {"range_indices", VX_INT32, IMAGE},
    [VX_RANGE_MASK] = {"range_mask", VX_UINT8, IMAGE},
    [VX_POINT_PIXELS] = {"point_pixels", VX_INT32, {VX_EXTENT_ROWS, VX_EXTENT_PIXEL}},
    [VX_POINT_RANGES] = {"point_ranges", VX_FLOAT32, {VX_EXTENT_ROWS}},
    [VX_PIXEL_COORDS] = {"pixel_coords", VX_INT32, {VX_EXTENT_KEPT, VX_EXTENT_AXES}},
    [VX_POINT_PIXEL_ROWS] = {"point_pixel_rows", VX_INT32, {VX_EXTENT_ROWS}},
    [VX_LEFT_POINTS] = {"points", VX_FLOAT32, {VX_EXTENT_LEFT, VX_EXTENT_COLUMNS}},
    [VX_POINT_INDICES] = {"point_indices", VX_INT32, {VX_EXTENT_LEFT}},
    [VX_POINT_ROWS] = {"point_rows", VX_INT32, {VX_EXTENT_ROWS}},
    [VX_POINT_FATES] = {"point_fates", VX_UINT8, {VX_EXTENT_ROWS}},
    [VX_POINT_STEPS] = {"point_steps", VX_UINT8, {VX_EXTENT_ROWS}},
};

_Static_assert(VX_TENSOR_COUNT < 64, "a vx_tensor_set has a bit for each tensor, and a signed number holds it");

enum vx_dtype vx_tensor_dtype(enum vx_tensor tensor, const struct vx_sizes *sizes) {
  for (int dtype = 0; dtype < VX_FLOAT_TYPES; dtype++)
    if ((sizes->narrow_tensors[dtype] & VX_TENSOR_BIT(tensor)) != 0) return (enum vx_dtype)dtype;
  return vx_tensors[tensor].dtype;
}

vx_tensor_set vx_narrow_tensors(const struct vx_sizes *sizes) {
  vx_tensor_set all = 0;
  for (int dtype = 0; dtype < VX_FLOAT_TYPES; dtype++) all |= sizes->narrow_tensors[dtype];
  return all;
}

// INT64_MAX on overflow: no tensor of that length fits in memory.
static int64_t product(int64_t a, int64_t b) {
  int64_t result;
  return __builtin_mul_overflow(a, b, &result) ? INT64_MAX : result;
}

int64_t vx_extent_of(enum vx_extent extent, const struct vx_sizes *sizes) {
  switch (extent) {
    case VX_EXTENT_ROWS: return sizes->rows;
    case VX_EXTENT_COLUMNS: return sizes->columns;
    case VX_EXTENT_VOXELS: return sizes->voxels;
    case VX_EXTENT_CAP: return sizes->cap;
    case VX_EXTENT_COORDS: return 4;
    case VX_EXTENT_PILLAR: return sizes->row + 6;
    case VX_EXTENT_BATCH: return sizes->clouds;
    case VX_EXTENT_SAMPLES: return sizes->stacked ? sizes->samples : sizes->samples / sizes->clouds;
    case VX_EXTENT_KEPT: return sizes->kept;
    case VX_EXTENT_LEFT: return sizes->left;
    case VX_EXTENT_MATRICES: return sizes->matrices;
    case VX_EXTENT_SIDE: return 4;
    case VX_EXTENT_BOX: return 7;
    case VX_EXTENT_DECODED: return sizes->decoded;
    case VX_EXTENT_HEIGHT: return sizes->height;
    case VX_EXTENT_WIDTH: return sizes->width;
    case VX_EXTENT_LOGITS: return sizes->logits;
    case VX_EXTENT_OFFSETS: return sizes->offsets;
    case VX_EXTENT_BINS: return sizes->bins;
    case VX_EXTENT_CLOUDS: return sizes->clouds;
    case VX_EXTENT_DEPTH: return sizes->depth;
    case VX_EXTENT_CHANNELS: return product(sizes->values, sizes->depth);
    case VX_EXTENT_PACKED: return sizes->width / 8 + (sizes->width % 8 != 0);
    case VX_EXTENT_TASKS: return sizes->tasks;
    case VX_EXTENT_TASKS_2: return sizes->tasks * 2;
    case VX_EXTENT_TASKS_3: return sizes->tasks * 3;
    case VX_EXTENT_HEAD_HEIGHT: return sizes->head_height;
    case VX_EXTENT_HEAD_WIDTH: return sizes->head_width;
    case VX_EXTENT_VALUES: return sizes->values;
    case VX_EXTENT_SPARSE: return sizes->sparse;
    case VX_EXTENT_AXES: return 3;
    case VX_EXTENT_ROW: return sizes->row;
    case VX_EXTENT_ORDERS: return sizes->orders;
    case VX_EXTENT_POOLED: return sizes->pooled;
    case VX_EXTENT_POOL_INPUTS: return sizes->pool_inputs;
    case VX_EXTENT_POOL_ENDS: return sizes->pooled + sizes->pools;
    case VX_EXTENT_IMAGE_CHANNELS: return sizes->image_channels;
    case VX_EXTENT_PIXEL: return 2;
    case VX_EXTENT_NONE: break;
  }
  return 1;
}

static enum vx_status shape_of(enum vx_tensor tensor, const struct vx_sizes *sizes, struct vx_shape *shape,
                               struct error *error) {
  const struct vx_tensor_row *row = &vx_tensors[tensor];
  *shape = (struct vx_shape){.dtype = vx_tensor_dtype(tensor, sizes)};
  shape->bytes = vx_dtype_size(shape->dtype);
  for (int i = 0; i < VX_MAX_RANK && row->extents[i] != VX_EXTENT_NONE; i++) {
    enum vx_extent extent = row->extents[i];
    if (extent == VX_EXTENT_BATCH && sizes->stacked) continue;
    if (extent == VX_EXTENT_CAP && sizes->cap == 0)
      return vx_refuse(error, "%s has no shape without a cap: max_points_per_voxel must be at least 1", row->name);
    int64_t length = vx_extent_of(extent, sizes);
    shape->dims[shape->rank++] = length;
    if (__builtin_mul_overflow(shape->bytes, (uint64_t)length, &shape->bytes))
      return vx_refuse(error, "%s does not fit in memory", row->name);
  }
  return VX_OK;
}

enum vx_status vx_layout_of(vx_tensor_set tensors, const struct vx_sizes *sizes, struct vx_layout *layout,
                            struct error *error) {
  *layout = (struct vx_layout){.tensors = tensors};
  for (enum vx_tensor tensor = 0; tensor < VX_TENSOR_COUNT; tensor++) {
    if ((tensors & VX_TENSOR_BIT(tensor)) == 0) continue;
    struct vx_shape *shape = &layout->shape[tensor];
    enum vx_status status = shape_of(tensor, sizes, shape, error);
    if (status != VX_OK) return status;
    size_t offset;
    if (__builtin_add_overflow(layout->bytes, VX_TENSOR_ALIGNMENT - 1, &offset))
      return vx_refuse(error, "the tensors do not fit in memory together");
    offset -= offset % VX_TENSOR_ALIGNMENT;
    layout->offset[tensor] = offset;
    if (__builtin_add_overflow(offset, shape->bytes, &layout->bytes))
      return vx_refuse(error, "the tensors do not fit in memory together");
  }
  return VX_OK;
}

void vx_layout_pack(struct vx_layout *layout, void *const *output_ptrs) {
  layout->bytes = 0;
  for (int tensor = 0; tensor < VX_TENSOR_COUNT; tensor++) {
    if ((layout->tensors & VX_TENSOR_BIT(tensor)) != 0 && !output_ptrs[tensor]) {
      layout->offset[tensor] = layout->bytes + -layout->bytes % VX_TENSOR_ALIGNMENT;
      layout->bytes = layout->offset[tensor] + layout->shape[tensor].bytes;
    }
  }
}
