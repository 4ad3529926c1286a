// See ops.h.
#include "kernels/ops.h"

#include <string.h>

#include "kernels/cylinder.h"

// ---- what follows from the parameters -------------------------------------------------------------------------------

static void add_grid(const int32_t cells[3], struct vx_sizes *sizes) {
  sizes->width = cells[0];
  sizes->height = cells[1];
  sizes->depth = cells[2];
}

static void add_narrow(enum vx_dtype dtype, vx_tensor_set tensors, struct vx_sizes *sizes) {
  if (vx_is_narrow(dtype)) sizes->narrow_tensors[dtype] |= tensors;
}

static void add_voxelize_sizes(const struct vx_job *job, struct vx_sizes *sizes) {
  sizes->voxels = job->counts.voxels_kept;
  sizes->cap = job->params.voxelize.max_points_per_voxel;
  if (job->params.voxelize.coordinates == VX_CYLINDER) sizes->values = sizes->row += VX_CYLINDER_EXTRA;
  if (job->params.voxelize.encoder.num_layers > 0) sizes->values = vx_encoder_width(&job->params.voxelize.encoder);
  add_narrow(job->params.voxelize.feature_dtype, VX_FEATURE_TENSORS, sizes);
  struct vx_grid grid;
  struct error error;
  if ((job->tensors & VX_DENSE_TENSORS) != 0 && vx_grid_of(&job->params.voxelize, 1, &grid, &error) == VX_OK)
    add_grid(grid.cells, sizes);
}

// Cylindrical rows can be voxelized, but not sampled, encoded or made into maps.
static enum vx_status check_cylinder(const struct vx_job *job, struct error *error) {
  const struct vx_voxelize *params = &job->params.voxelize;
  bool plain = !params->sampling.enabled && params->encoder.num_layers == 0 && (job->tensors & VX_DENSE_TENSORS) == 0;
  if (plain && job->inputs[VX_POINTS].dims[1] + VX_CYLINDER_EXTRA <= VX_MAX_FEATURES) return VX_OK;
  return vx_refuse(error, "cylindrical rows have up to %d columns, and cannot be sampled, encoded or made into maps",
                   VX_MAX_FEATURES);
}

static enum vx_status check_voxelize(const struct vx_job *job, struct error *error) {
  const struct vx_voxelize *params = &job->params.voxelize;
  if (params->coordinates == VX_CYLINDER) return check_cylinder(job, error);
  if (params->encoder.num_layers == 0 && (job->tensors & VX_ENCODED_TENSORS) == 0) return VX_OK;
  return vx_encoder_fits(&params->encoder, job->inputs[VX_POINTS].dims[1], error);
}

static void add_transform_sizes(const struct vx_job *job, struct vx_sizes *sizes) {
  sizes->matrices = job->inputs[VX_MATRIX].dims[0] == 1 ? 1 : job->num_clouds;
}

static void add_nms_sizes(const struct vx_job *job, struct vx_sizes *sizes) { sizes->kept = job->counts.kept; }

// All maps have the height and width of `cls_preds`.
static void add_decode_sizes(const struct vx_job *job, struct vx_sizes *sizes) {
  const struct vx_decode *params = &job->params.decode;
  int64_t anchors = vx_cell_anchors(params);
  const int64_t *dims = job->inputs[VX_CLS_PREDS].dims;
  // If a dimension is 0, the product of the others could overflow.
  bool empty = dims[0] == 0 || dims[1] == 0 || dims[2] == 0 || dims[3] == 0;
  sizes->logits = vx_cell_logits(params, dims[3]);
  sizes->rows = empty ? 0 : dims[0] * dims[1] * dims[2] * (params->labels == VX_LABELS_ALL ? sizes->logits : anchors);
  sizes->kept = job->counts.kept;
  sizes->height = dims[1];
  sizes->width = dims[2];
  sizes->decoded = vx_decoded_values(params);
  sizes->offsets = anchors * vx_code_values(params);
  sizes->bins = anchors * params->dir_bins;
}

// Logits are numbered over all clouds, up to VX_MAX_POINTS.
static enum vx_status check_decode(const struct vx_job *job, struct error *error) {
  const int64_t *dims = job->inputs[VX_CLS_PREDS].dims;
  int64_t cells = dims[0] * dims[1] * dims[2];  // at most VX_MAX_POINTS, unless there are no items
  if (job->counts.received == 0 || dims[3] == 0 || cells <= VX_MAX_POINTS / dims[3]) return VX_OK;
  return vx_refuse(error, "cls_preds has more than %lld values", (long long)VX_MAX_POINTS);
}

static void add_center_sizes(const struct vx_job *job, struct vx_sizes *sizes) {
  const struct vx_decode_center *params = &job->params.center;
  const int64_t *dims = job->inputs[VX_HEATMAP].dims;
  bool empty = dims[0] == 0 || dims[1] == 0 || dims[2] == 0;  // then the product of the others could overflow
  sizes->tasks = params->tasks.count == 0 ? 1 : params->tasks.count;
  sizes->rows = empty ? 0 : dims[0] * dims[1] * dims[2] * (params->best_class ? sizes->tasks : dims[3]);
  sizes->kept = job->counts.kept;
  sizes->height = dims[1];
  sizes->width = dims[2];
  sizes->logits = params->tasks.count == 0 ? dims[3] : 0;
  for (int32_t task = 0; task < params->tasks.count; task++) sizes->logits += params->tasks.classes[task];
  sizes->decoded = job->inputs[VX_VEL].rank == 0 ? VX_BOX_VALUES : VX_MOVING_BOX_VALUES;
}

static void add_image_sizes(const struct vx_job *job, struct vx_sizes *sizes) {
  sizes->image_channels = job->params.image.num_channels;
  sizes->head_height = job->params.image.height;
  sizes->head_width = job->params.image.width;
  sizes->kept = job->counts.kept;
}

static enum vx_status check_image(const struct vx_job *job, struct error *error) {
  return vx_check_range_image(&job->params.image, job->inputs[VX_POINTS].dims[1], job->num_clouds, error);
}

static void add_scatter_sizes(const struct vx_job *job, struct vx_sizes *sizes) {
  add_grid(job->params.scatter.grid_size, sizes);
  add_narrow(job->inputs[VX_FEATURES].dtype, VX_FEATURE_TENSORS, sizes);
}

static void add_backbone_sizes(const struct vx_job *job, const struct vx_sparse_plan *plan, struct vx_sizes *sizes) {
  int32_t last = plan->num_levels - 1;
  sizes->values = plan->width;
  sizes->sparse = job->counts.level_rows[last];
  sizes->depth = plan->shape[last][0];
  sizes->height = plan->shape[last][1];
  sizes->width = plan->shape[last][2];
}

// The grid is that of the voxels, or of the backbone's last level. `kept` counts boxes, not points.
static void add_detect_sizes(const struct vx_job *job, struct vx_sizes *sizes) {
  const struct vx_detector *detector = job->params.detect.detector;
  const struct vx_detector_map *maps = detector->maps;
  struct vx_grid grid;
  struct error error;
  sizes->values = vx_encoder_width(&detector->voxelize.encoder);
  if (vx_grid_of(&detector->voxelize, 1, &grid, &error) == VX_OK) add_grid(grid.cells, sizes);
  if (vx_has_backbone(detector)) add_backbone_sizes(job, &detector->plan, sizes);
  add_narrow(detector->voxelize.feature_dtype, VX_FEATURE_TENSORS, sizes);
  for (int dtype = 0; dtype < VX_FLOAT_TYPES; dtype++)
    add_narrow((enum vx_dtype)dtype, vx_map_tensors(detector, VX_DTYPE_BIT(dtype)), sizes);
  for (int32_t cloud = 0; job->row_counts && cloud < job->num_clouds; cloud++) sizes->kept += job->row_counts[cloud];
  bool centers = detector->head == VX_DECODE_CENTER;
  sizes->head_height = maps[0].height;
  sizes->head_width = maps[0].width;
  sizes->logits = maps[0].channels;
  sizes->offsets = centers ? 0 : maps[VX_BOX_PREDS].channels;
  sizes->bins = centers ? 0 : maps[VX_DIR_CLS_PREDS].channels;
  sizes->tasks = centers ? maps[VX_HEIGHT].channels : 0;
  bool moving = centers ? maps[VX_VEL].output != NULL : detector->params.decode.velocity != 0;
  sizes->decoded = moving ? VX_MOVING_BOX_VALUES : VX_BOX_VALUES;
}

static enum vx_status check_backbone(const struct vx_job *job, struct error *error) {
  const struct vx_detector *detector = job->params.detect.detector;
  int64_t columns = job->inputs[VX_POINTS].dims[1];
  if (!vx_has_backbone(detector)) return vx_refuse(error, "the detector has no backbone");
  return columns == vx_detector_columns(detector)
             ? VX_OK
             : vx_refuse(error, "the points have %lld columns; the backbone takes %d", (long long)columns,
                         (int)vx_detector_columns(detector));
}

static enum vx_status check_detect(const struct vx_job *job, struct error *error) {
  const struct vx_detector *detector = job->params.detect.detector;
  if (vx_has_backbone(detector) || (job->tensors & VX_SPARSE_TENSORS) != 0) {
    enum vx_status status = check_backbone(job, error);
    if (status != VX_OK) return status;
  }
  vx_tensor_set missing = job->tensors & VX_HEAD_TENSORS & ~vx_map_tensors(detector, ~0u);
  return missing == 0 ? VX_OK
                      : vx_refuse(error, "the detector does not make %s", vx_tensors[__builtin_ctzll(missing)].name);
}

// The maximum number of pairs: each kept box is compared with all boxes that rank after it.
static int64_t pairs_of(const struct vx_nms *nms, int64_t boxes) {
  int64_t candidates = boxes < nms->pre_max ? boxes : nms->pre_max;
  return candidates * (candidates < nms->post_max ? candidates : nms->post_max);
}

static int64_t nms_pairs(const struct vx_job *job, int64_t rows) { return pairs_of(&job->params.nms, rows); }

// With labels=all, an anchor may have several boxes in a group, and all of them are compared.
static int64_t decode_pairs(const struct vx_job *job, int64_t rows) {
  const struct vx_decode *params = &job->params.decode;
  struct vx_decode whole = vx_with_tasks(params, vx_cell_logits(params, job->inputs[VX_CLS_PREDS].dims[3]));
  struct vx_head_groups groups = vx_head_groups_of(&whole.tasks, (enum vx_nms_groups)params->nms_groups);
  int64_t pairs = 0;
  for (int32_t group = 0; group < groups.count; group++) {
    struct vx_nms nms = params->nms;
    if (params->labels == VX_LABELS_ALL) nms.pre_max *= groups.first[group + 1] - groups.first[group];
    pairs += pairs_of(&nms, rows);
  }
  return pairs;
}

static int64_t center_pairs(const struct vx_job *job, int64_t rows) {
  const struct vx_decode_center *params = &job->params.center;
  int64_t tasks = params->tasks.count == 0 ? 1 : params->tasks.count;
  return tasks * pairs_of(&params->nms, rows < params->max_objects ? rows : params->max_objects);
}

static void add_serialize_sizes(const struct vx_job *job, struct vx_sizes *sizes) {
  const struct vx_serialize *params = &job->params.serialize;
  int64_t before = sizes->left;
  sizes->orders = params->num_orders;
  sizes->pools = params->num_pools;
  for (int32_t stage = 0; stage < params->num_pools; stage++) {
    sizes->pool_inputs += before;
    before = job->counts.level_rows[stage];
    sizes->pooled += before;
  }
}

static enum vx_status check_serialize(const struct vx_job *job, struct error *error) {
  return vx_check_serialize(&job->params.serialize, error);
}

// ---- the tables -----------------------------------------------------------------------------------------------------

#define POINTS                                                                                                         \
  {                                                                                                                    \
    .name = "points", .dtypes = VX_FLOATS, .extents = { VX_EXTENT_ROWS, VX_EXTENT_COLUMNS }                            \
  }
#define MATRIX                                                                                                         \
  {                                                                                                                    \
    .name = "matrix", .dtypes = VX_DTYPE_BIT(VX_FLOAT32),                                                              \
    .extents = {VX_EXTENT_MATRICES, VX_EXTENT_SIDE, VX_EXTENT_SIDE}, .optional = true                                  \
  }
#define BOXES                                                                                                          \
  {                                                                                                                    \
    .name = "boxes", .dtypes = VX_DTYPE_BIT(VX_FLOAT32), .extents = { VX_EXTENT_ROWS, VX_EXTENT_BOX }                  \
  }
#define SCORES                                                                                                         \
  {                                                                                                                    \
    .name = "scores", .dtypes = VX_DTYPE_BIT(VX_FLOAT32), .extents = { VX_EXTENT_ROWS }                                \
  }
#define LABELS                                                                                                         \
  { .name = "labels", .dtypes = VX_DTYPE_BIT(VX_INT32), .extents = {VX_EXTENT_ROWS}, .optional = true }
#define FEATURES                                                                                                       \
  {                                                                                                                    \
    .name = "features", .dtypes = VX_FLOATS, .extents = { VX_EXTENT_ROWS, VX_EXTENT_COLUMNS }                          \
  }
#define COORDS                                                                                                         \
  {                                                                                                                    \
    .name = "voxel_coords", .dtypes = VX_DTYPE_BIT(VX_INT32), .extents = { VX_EXTENT_ROWS, VX_EXTENT_COORDS }          \
  }
#define MAP(title, channels, given)                                                                                    \
  {                                                                                                                    \
    .name = (title), .dtypes = VX_FLOATS, .extents = {VX_EXTENT_BATCH, VX_EXTENT_HEIGHT, VX_EXTENT_WIDTH, channels},   \
    .optional = !(given)                                                                                               \
  }
// A stage that does not run takes 0 ns.
#define STAGES                                                                                                         \
  (VX_STAGE_BIT(VX_STAGE_COPY_IN) | VX_STAGE_BIT(VX_STAGE_VOXELIZE) | VX_STAGE_BIT(VX_STAGE_FEATURES) |                \
   VX_STAGE_BIT(VX_STAGE_SCATTER) | VX_STAGE_BIT(VX_STAGE_SAMPLE) | VX_STAGE_BIT(VX_STAGE_COPY_OUT))
#define SUPPRESSION                                                                                                    \
  (VX_FATE_BIT(VX_FATE_KEPT) | VX_FATE_BIT(VX_FATE_INVALID) | VX_FATE_BIT(VX_FATE_OVER_PRE_MAX) |                      \
   VX_FATE_BIT(VX_FATE_SUPPRESSED) | VX_FATE_BIT(VX_FATE_OVER_POST_MAX))
#define FINITE (VX_FATE_BIT(VX_FATE_KEPT) | VX_FATE_BIT(VX_FATE_NOT_FINITE))
#define VOXELIZED                                                                                                      \
  (FINITE | VX_FATE_BIT(VX_FATE_OUT_OF_RANGE) | VX_FATE_BIT(VX_FATE_OVER_VOXEL_CAP) |                                  \
   VX_FATE_BIT(VX_FATE_OVER_MAX_VOXELS) | VX_FATE_BIT(VX_FATE_BLOCK_FILTERED))

#define OF_CHAIN (VX_STAGE_BIT(VX_STAGE_COPY_IN) | VX_STAGE_BIT(VX_STAGE_COPY_OUT))

const struct vx_operation vx_operations[VX_OPS] = {
    [VX_VOXELIZE] = {.name = "voxelize",
                     .inputs = {POINTS},
                     .tensors = VX_VOXEL_TENSORS | VX_DENSE_TENSORS | VX_ENCODED_TENSORS | VX_SAMPLED_TENSORS |
                                VX_CHAIN_TENSORS,
                     .stages = STAGES,
                     .fates = VOXELIZED,
                     .makes_voxels = true,
                     .sectioned = true,
                     .rows = "voxels",
                     .add_sizes = add_voxelize_sizes,
                     .check = check_voxelize,
                     .sampling = offsetof(struct vx_job, params.voxelize.sampling)},
    [VX_FPS] = {.name = "fps",
                .inputs = {POINTS},
                .tensors = VX_SAMPLED_TENSORS | VX_CHAIN_TENSORS,
                .stages = STAGES,
                .fates = FINITE,
                .sampling = offsetof(struct vx_job, params.fps.sampling)},
    [VX_POINTS_OP] = {.name = "points",
                      .inputs = {POINTS},
                      .tensors = VX_CHAIN_TENSORS,
                      .chained = true,
                      .stages = OF_CHAIN,
                      .fates = FINITE,
                      .sectioned = true,
                      .rows = "kept"},
    [VX_TRANSFORM] = {.name = "transform",
                      .inputs = {POINTS, MATRIX},
                      .tensors = VX_CHAIN_TENSORS,
                      .chained = true,
                      .stages = OF_CHAIN,
                      .fates = FINITE,
                      .sectioned = true,
                      .rows = "kept",
                      .add_sizes = add_transform_sizes},
    [VX_NMS] = {.name = "nms",
                .items = VX_BOX_ITEMS,
                .inputs = {BOXES, SCORES, LABELS},
                .tensors = VX_NMS_TENSORS,
                .stages = VX_STAGE_BIT(VX_STAGE_COPY_IN) | VX_STAGE_BIT(VX_STAGE_NMS) | VX_STAGE_BIT(VX_STAGE_COPY_OUT),
                .fates = SUPPRESSION,
                .rows = "kept",
                .add_sizes = add_nms_sizes,
                .pairs = nms_pairs},
    [VX_DECODE] = {.name = "decode",
                   .items = VX_ANCHOR_ITEMS,
                   .inputs = {MAP("cls_preds", VX_EXTENT_LOGITS, true), MAP("box_preds", VX_EXTENT_OFFSETS, true),
                              MAP("dir_cls_preds", VX_EXTENT_BINS, false)},
                   .tensors = VX_DECODE_TENSORS,
                   .map = VX_HEAD_CLS_PREDS,
                   .stages = VX_STAGE_BIT(VX_STAGE_COPY_IN) | VX_STAGE_BIT(VX_STAGE_DECODE) |
                             VX_STAGE_BIT(VX_STAGE_NMS) | VX_STAGE_BIT(VX_STAGE_COPY_OUT),
                   .fates = SUPPRESSION | VX_FATE_BIT(VX_FATE_BELOW_THRESHOLD),
                   .rows = "kept",
                   .add_sizes = add_decode_sizes,
                   .check = check_decode,
                   .pairs = decode_pairs},
    [VX_SCATTER] = {.name = "scatter",
                    .items = VX_VOXEL_ITEMS,
                    .inputs = {FEATURES, COORDS},
                    .tensors = VX_SCATTER_TENSORS,
                    .stages = VX_STAGE_BIT(VX_STAGE_COPY_IN) | VX_STAGE_BIT(VX_STAGE_SCATTER) |
                              VX_STAGE_BIT(VX_STAGE_COPY_OUT),
                    .fates =
                        VX_FATE_BIT(VX_FATE_KEPT) | VX_FATE_BIT(VX_FATE_OUT_OF_RANGE) | VX_FATE_BIT(VX_FATE_DUPLICATE),
                    .rows_carry_cloud_index = true,
                    .rows = "kept",
                    .add_sizes = add_scatter_sizes},
    [VX_DECODE_CENTER] = {.name = "decode_center",
                          .items = VX_CANDIDATE_ITEMS,
                          .inputs = {MAP("heatmap", VX_EXTENT_LOGITS, true), MAP("center", VX_EXTENT_TASKS_2, true),
                                     MAP("height", VX_EXTENT_TASKS, true), MAP("dim", VX_EXTENT_TASKS_3, true),
                                     MAP("rot", VX_EXTENT_TASKS_2, true), MAP("vel", VX_EXTENT_TASKS_2, false),
                                     MAP("iou", VX_EXTENT_TASKS, false)},
                          .tensors = VX_DECODE_TENSORS,
                          .map = VX_HEAD_HEATMAP,
                          .stages = VX_STAGE_BIT(VX_STAGE_COPY_IN) | VX_STAGE_BIT(VX_STAGE_DECODE) |
                                    VX_STAGE_BIT(VX_STAGE_NMS) | VX_STAGE_BIT(VX_STAGE_COPY_OUT),
                          .fates = SUPPRESSION | VX_FATE_BIT(VX_FATE_BELOW_THRESHOLD) |
                                   VX_FATE_BIT(VX_FATE_OVER_MAX_OBJECTS) | VX_FATE_BIT(VX_FATE_OUTSIDE),
                          .rows = "kept",
                          .add_sizes = add_center_sizes,
                          .pairs = center_pairs},
    [VX_DETECT] = {.name = "detect",
                   .inputs = {POINTS},
                   .tensors = VX_DETECT_TENSORS | VX_TRACK_TENSORS | VX_CHAIN_TENSORS,
                   .stages = VX_STAGE_BIT(VX_STAGE_COPY_IN) | VX_STAGE_BIT(VX_STAGE_VOXELIZE) |
                             VX_STAGE_BIT(VX_STAGE_FEATURES) | VX_STAGE_BIT(VX_STAGE_ENCODER) |
                             VX_STAGE_BIT(VX_STAGE_SCATTER) | VX_STAGE_BIT(VX_STAGE_BACKBONE) |
                             VX_STAGE_BIT(VX_STAGE_NETWORK) | VX_STAGE_BIT(VX_STAGE_DECODE) |
                             VX_STAGE_BIT(VX_STAGE_NMS) | VX_STAGE_BIT(VX_STAGE_COPY_OUT),
                   .fates = VOXELIZED,
                   .makes_voxels = true,
                   .sectioned = true,
                   .needs_detector = true,
                   .rows = "boxes",
                   .add_sizes = add_detect_sizes,
                   .check = check_detect},
    [VX_BACKBONE] = {.name = "backbone",
                     .inputs = {POINTS},
                     .tensors = VX_BACKBONE_TENSORS | VX_CHAIN_TENSORS,
                     .stages = VX_STAGE_BIT(VX_STAGE_COPY_IN) | VX_STAGE_BIT(VX_STAGE_VOXELIZE) |
                               VX_STAGE_BIT(VX_STAGE_FEATURES) | VX_STAGE_BIT(VX_STAGE_BACKBONE) |
                               VX_STAGE_BIT(VX_STAGE_COPY_OUT),
                     .fates = VOXELIZED,
                     .makes_voxels = true,
                     .sectioned = true,
                     .needs_detector = true,
                     .rows = "voxels",
                     .add_sizes = add_detect_sizes,
                     .check = check_backbone},
    [VX_SERIALIZE] = {.name = "serialize",
                      .inputs = {POINTS},
                      .tensors = VX_SERIAL_TENSORS | VX_POOL_TENSORS | VX_CHAIN_TENSORS,
                      .chained = true,
                      .stages = OF_CHAIN | VX_STAGE_BIT(VX_STAGE_SERIALIZE),
                      .fates = FINITE | VX_FATE_BIT(VX_FATE_OUT_OF_LATTICE),
                      .rows = "kept",
                      .add_sizes = add_serialize_sizes,
                      .check = check_serialize},
    [VX_RANGE_IMAGE_OP] = {.name = "range_image",
                           .inputs = {POINTS},
                           .tensors = VX_RANGE_IMAGE_TENSORS | VX_CHAIN_TENSORS,
                           .stages = OF_CHAIN | VX_STAGE_BIT(VX_STAGE_PROJECT),
                           .fates = FINITE | VX_FATE_BIT(VX_FATE_OCCLUDED) | VX_FATE_BIT(VX_FATE_OUTSIDE_IMAGE),
                           .sectioned = true,
                           .rows = "kept",
                           .add_sizes = add_image_sizes,
                           .check = check_image},
};

const char *const vx_stage_names[VX_STAGE_COUNT] = {
    [VX_STAGE_COPY_IN] = "copy_in",   [VX_STAGE_STEPS] = "steps",         [VX_STAGE_VOXELIZE] = "voxelize",
    [VX_STAGE_FEATURES] = "features", [VX_STAGE_ENCODER] = "encoder",     [VX_STAGE_SCATTER] = "scatter",
    [VX_STAGE_SAMPLE] = "sample",     [VX_STAGE_PROJECT] = "project",     [VX_STAGE_BACKBONE] = "backbone",
    [VX_STAGE_NETWORK] = "network",   [VX_STAGE_DECODE] = "decode",       [VX_STAGE_NMS] = "nms",
    [VX_STAGE_COPY_OUT] = "copy_out", [VX_STAGE_SERIALIZE] = "serialize",
};

const char *const vx_item_names[VX_ITEMS] = {[VX_POINT_ITEMS] = "points",
                                             [VX_BOX_ITEMS] = "boxes",
                                             [VX_ANCHOR_ITEMS] = "anchors",
                                             [VX_VOXEL_ITEMS] = "voxels",
                                             [VX_CANDIDATE_ITEMS] = "candidates"};

uint32_t vx_fates_of_job(const struct vx_job *job) {
  return vx_operations[job->op].fates | (job->chain ? vx_fates_of_chain(job->chain) : 0);
}

uint32_t vx_fates_of(enum vx_items items) {
  uint32_t fates = 0;
  for (enum vx_op op = 0; op < VX_OPS; op++) fates |= vx_operations[op].items == items ? vx_operations[op].fates : 0;
  for (int type = 0; type < VX_STEP_TYPES && items == VX_POINT_ITEMS; type++)
    fates |= vx_step_row_of((enum vx_step_type)type)->fates;
  return fates;
}

vx_tensor_set vx_map_tensors(const struct vx_detector *detector, uint32_t dtypes) {
  vx_tensor_set set = 0;
  for (int map = 0; map < VX_DETECTOR_MAPS; map++)
    if (detector->maps[map].output && (dtypes & VX_DTYPE_BIT(detector->maps[map].dtype)) != 0)
      set |= VX_TENSOR_BIT((int)vx_operations[detector->head].map + map);
  return set;
}

enum vx_op vx_op_find(const char *name) {
  enum vx_op op = 0;
  while (op < VX_OPS && strcmp(vx_operations[op].name, name) != 0) op++;
  return op;
}

// ---- jobs -----------------------------------------------------------------------------------------------------------

bool vx_is_chained(const struct vx_job *job) {
  return vx_operations[job->op].chained || (job->op == VX_VOXELIZE && job->params.voxelize.coordinates == VX_CYLINDER);
}

const struct vx_sampling *vx_sampling_of(const struct vx_job *job) {
  size_t offset = vx_operations[job->op].sampling;
  const struct vx_sampling *sampling = (const void *)((const char *)job + offset);
  return offset && sampling->enabled ? sampling : NULL;
}

enum vx_lane_use vx_lane_use_of(const struct vx_job *job, const int32_t *point_counts) {
  const struct vx_operation *operation = &vx_operations[job->op];
  int64_t pairs = 0;
  if (operation->needs_detector) return VX_LANE_DETECT;
  for (int32_t cloud = 0; cloud < job->num_clouds && operation->pairs; cloud++)
    pairs += operation->pairs(job, point_counts[cloud]);
  return vx_sampling_of(job) || pairs > VX_QUICK_PAIRS ? VX_LANE_LONG : VX_LANE_QUICK;
}

struct vx_sizes vx_sizes_of(const struct vx_job *job) {
  const struct vx_sampling *sampling = vx_sampling_of(job);
  struct vx_sizes sizes = {.clouds = job->num_clouds,
                           .rows = job->inputs[0].dims[0],
                           .columns = job->inputs[0].dims[1],
                           .row = job->inputs[0].dims[1],
                           .values = job->inputs[0].dims[1],
                           .samples = job->counts.sampled,
                           .left = job->report ? job->report->left : 0,
                           .stacked = sampling && sampling->stacked};
  if (vx_operations[job->op].add_sizes) vx_operations[job->op].add_sizes(job, &sizes);
  return sizes;
}

bool vx_input_fits(const struct vx_input *input, const struct vx_input_row *row, const struct vx_sizes *sizes) {
  int rank = 0;
  if (row->optional && input->rank == 0) return true;
  bool fits = (row->dtypes & VX_DTYPE_BIT(input->dtype)) != 0;
  for (; rank < VX_MAX_RANK && row->extents[rank] != VX_EXTENT_NONE; rank++)
    fits = fits && input->dims[rank] == vx_extent_of(row->extents[rank], sizes);
  return fits && input->rank == rank;
}

// The caller has widened points with times to float32.
static enum vx_status check_deskew(const struct vx_job *job, struct error *error) {
  const struct vx_deskew *deskew = job->deskew;
  bool of_points = vx_operations[job->op].items == VX_POINT_ITEMS && job->inputs[VX_POINTS].dtype == VX_FLOAT32;
  if (!deskew || (of_points && deskew->motion->count > 0 && deskew->motion->count <= VX_MAX_SEGMENTS)) return VX_OK;
  return vx_refuse(error, "de-skew needs points of float32, and a motion of 1 to %d segments", VX_MAX_SEGMENTS);
}

static enum vx_status begin_chain(struct vx_job *job, struct error *error) {
  const struct vx_operation *operation = &vx_operations[job->op];
  if (!job->chain && !vx_is_chained(job) && (job->tensors & VX_CHAIN_TENSORS) == 0) return VX_OK;
  if (!job->chain) return vx_refuse(error, "%s needs a chain, but the job has none", operation->name);
  if (operation->items != VX_POINT_ITEMS) return vx_refuse(error, "%s has no points for a chain", operation->name);
  enum vx_status status = vx_check_chain(job, error);
  if (status == VX_OK) *job->report = (struct vx_chain_report){.left = job->counts.received};
  return status;
}

// Fills `received` of each section and clears its other counts. False if the sections do not fit the job's clouds.
static bool begin_sections(struct vx_job *job) {
  const struct vx_sections *sections = &job->sections;
  int64_t points = 0;
  if (job->num_clouds != 1 || sections->count < 0 || sections->count > VX_MAX_SECTIONS) return false;
  for (int32_t i = 0; i < sections->count; i++) {
    if (sections->points[i] < 0) return false;
    sections->counts[i] = (struct vx_counts){.received = sections->points[i]};
    points += sections->points[i];
  }
  return points == job->counts.received;
}

enum vx_status vx_end_stopped(const struct vx_job *job, struct error *error) {
  bool boxes = job->op == VX_NMS || job->op == VX_DECODE || job->op == VX_DECODE_CENTER;
  return vx_fail(error, VX_STOPPED, "ended before all %s",
                 boxes                 ? "boxes were compared"
                 : vx_sampling_of(job) ? "samples were chosen"
                                       : "rows were done");
}

enum vx_status vx_begin_job(struct vx_job *job, struct error *error) {
  const struct vx_operation *operation = &vx_operations[job->op];
  int64_t rows = operation->rows_carry_cloud_index ? job->inputs[0].dims[0] : 0;
  memset(&job->counts, 0, sizeof job->counts);
  memset(job->stage_ns, 0, sizeof job->stage_ns);
  memset(job->row_counts, 0, (size_t)job->num_clouds * sizeof *job->row_counts);
  for (int32_t cloud = 0; cloud < job->num_clouds && !operation->rows_carry_cloud_index; cloud++)
    rows += job->point_counts[cloud];
  if (rows > VX_MAX_POINTS) {
    return vx_refuse(error, "%lld %s are too many: at most %lld can be numbered", (long long)rows,
                     vx_item_names[operation->items], (long long)VX_MAX_POINTS);
  }
  struct vx_sizes sizes = vx_sizes_of(job);
  const struct vx_input_row *inputs = operation->inputs;
  for (int i = 0; i < VX_MAX_INPUTS && inputs[i].name; i++)
    if (sizes.rows != rows || !vx_input_fits(&job->inputs[i], &inputs[i], &sizes))
      return vx_refuse(error, "the input %s has a wrong type or shape", inputs[i].name);
  job->counts.received = rows;
  bool sectioned = operation->sectioned || job->chain;
  if (job->sections.count != 0 && !(sectioned && begin_sections(job)))
    return vx_refuse(error, "the sections do not add up to the points of a single cloud");
  enum vx_status status = check_deskew(job, error);
  if (status == VX_OK) status = begin_chain(job, error);
  return status == VX_OK && operation->check ? operation->check(job, error) : status;
}

static void settle_steps(const struct vx_chain *chain, const struct vx_chain_report *report, struct vx_counts *counts) {
  for (int32_t step = 1; step <= chain->count; step++)
    for (enum vx_fate fate = VX_FATE_NOT_FINITE; fate < VX_FATE_COUNT; fate++) {
      counts->not_finite -= report->fates[step][fate];
      counts->fates[fate] += report->fates[step][fate];
    }
}

// If the operation has not counted the section, it has kept all points that the chain left.
static void settle_section(bool counted, const uint32_t fates[VX_FATE_COUNT], struct vx_counts *counts) {
  if (!counted) counts->kept = counts->received;
  for (enum vx_fate fate = VX_FATE_NOT_FINITE; fate < VX_FATE_COUNT; fate++) {
    *(counted ? &counts->not_finite : &counts->kept) -= fates[fate];
    counts->fates[fate] += fates[fate];
  }
}

void vx_settle_chain(struct vx_job *job) {
  struct vx_chain_report *report = job->report;
  if (report->settled) return;
  report->settled = true;
  settle_steps(job->chain, report, &job->counts);
  const struct vx_operation *operation = &vx_operations[job->op];
  bool counted = operation->sectioned && (operation->tensors & ~VX_CHAIN_TENSORS) != 0;
  for (int32_t i = 0; i < job->sections.count && report->section_fates; i++)
    settle_section(counted, report->section_fates[i], &job->sections.counts[i]);
}

enum vx_status vx_take_output(struct vx_job *job, struct vx_layout *layout, void **output, struct error *error) {
  if (job->chain) vx_settle_chain(job);
  struct vx_sizes sizes = vx_sizes_of(job);
  enum vx_status status = vx_layout_of(job->tensors, &sizes, layout, error);
  if (status == VX_OK) status = job->caller->output(job->ctx, layout, output, error);
  if (status == VX_OK && job->report) job->report->output = *output;
  return status;
}
