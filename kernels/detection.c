// See detection.h.
#include "kernels/detection.h"

#include <stdio.h>
#include <string.h>

#include "kernels/decoder.h"
#include "kernels/ops.h"
#include "kernels/parallel_for.h"

struct vx_detection vx_detection_of(struct vx_job *job) {
  return (struct vx_detection){.job = job, .detector = job->params.detect.detector};
}

// ---- the callers of the stages --------------------------------------------------------------------------------------

static enum vx_status give_features(void *ctx, const struct vx_layout *layout, void **block, struct error *error) {
  struct vx_detection *detection = ctx;
  (void)error;
  if (detection->voxels_at) detection->voxels = *layout;
  *block = detection->voxels_at ? detection->voxels_at : detection->features_at;
  return VX_OK;
}

static enum vx_status take_output(struct vx_detection *detection, struct error *error) {
  void *output = NULL;
  enum vx_status status = vx_take_output(detection->job, &detection->layout, &output, error);
  detection->output = output;
  return status;
}

static enum vx_status give_boxes(void *ctx, const struct vx_layout *layout, void **block, struct error *error) {
  struct vx_detection *detection = ctx;
  enum vx_status status = take_output(detection, error);
  if (status == VX_OK) {
    detection->decode->pinned = detection->job->pinned;
    *block = detection->output + detection->layout.offset[__builtin_ctzll(layout->tensors)];
  }
  return status;
}

static bool allow_scratch(void *ctx, size_t bytes) {
  const struct vx_job *job = ((const struct vx_detection *)ctx)->job;
  return !job->caller || !job->caller->scratch || job->caller->scratch(job->ctx, bytes);
}

static bool is_stopped(void *ctx) {
  const struct vx_job *job = ((const struct vx_detection *)ctx)->job;
  return job->caller && job->caller->stopped && job->caller->stopped(job->ctx);
}

static enum vx_status parallel_for(void *ctx, const struct vx_worker *own, const struct vx_tasks *tasks,
                                   struct error *error) {
  return vx_parallel_for(((const struct vx_detection *)ctx)->job, own->lane, tasks, error);
}

static const struct vx_caller voxelize_caller = {give_features, allow_scratch, is_stopped, parallel_for, NULL};
static const struct vx_caller decode_caller = {give_boxes, allow_scratch, is_stopped, parallel_for, NULL};

enum vx_status vx_detection_check_time(const struct vx_detection *detection, const char *next, struct error *error) {
  const struct vx_job *job = detection->job;
  if (!job->caller || !job->caller->stopped || !job->caller->stopped(job->ctx)) return VX_OK;
  return vx_fail(error, VX_STOPPED, "ended before %s", next);
}

// ---- sizes ----------------------------------------------------------------------------------------------------------

#define VOXEL_TENSORS (VX_TENSOR_BIT(VX_VOXEL_COORDS) | VX_TENSOR_BIT(VX_VOXEL_FEATURES))

static enum vx_status measure_voxels(struct vx_detection *detection, struct error *error) {
  const struct vx_job *job = detection->job;
  int64_t most = detection->detector->voxelize.max_voxels;
  struct vx_sizes sizes = {.row = job->inputs[VX_POINTS].dims[1]};
  for (int32_t cloud = 0; cloud < job->num_clouds; cloud++)
    sizes.voxels += job->point_counts[cloud] < most ? job->point_counts[cloud] : most;
  return vx_layout_of(VOXEL_TENSORS, &sizes, &detection->voxels, error);
}

static enum vx_status measure_features(struct vx_detection *detection, struct error *error) {
  struct vx_sizes sizes = vx_sizes_of(detection->job);
  struct vx_layout layout;
  enum vx_status status = vx_layout_of(VX_TENSOR_BIT(VX_BEV_FEATURES), &sizes, &layout, error);
  detection->features = layout.shape[VX_BEV_FEATURES];
  return status;
}

static enum vx_status measure_map(const struct vx_detector *detector, int map, int64_t clouds, struct vx_shape *shape,
                                  struct error *error) {
  const struct vx_detector_map *of = &detector->maps[map];
  *shape = (struct vx_shape){.dtype = of->dtype, .rank = 4, .dims = {clouds, of->height, of->width, of->channels}};
  if (detector->channels_first)
    memcpy(shape->dims + 1, (int64_t[]){of->channels, of->height, of->width}, 3 * sizeof *shape->dims);
  shape->bytes = vx_dtype_size(shape->dtype);
  for (int i = 0; i < shape->rank; i++)
    if (__builtin_mul_overflow(shape->bytes, (uint64_t)shape->dims[i], &shape->bytes))
      return vx_refuse(error, "the network's %s does not fit in memory", of->output);
  return VX_OK;
}

enum vx_status vx_detection_measure(struct vx_detection *detection, struct error *error) {
  const struct vx_job *job = detection->job;
  bool detects = job->op == VX_DETECT;
  enum vx_status status = VX_OK;
  if (vx_has_backbone(detection->detector)) status = measure_voxels(detection, error);
  if (status == VX_OK && (detects || (job->tensors & VX_TENSOR_BIT(VX_BEV_FEATURES)) != 0))
    status = measure_features(detection, error);
  for (int i = 0; i < VX_MAX_INPUTS && detects && status == VX_OK; i++)
    if (detection->detector->maps[i].output)
      status = measure_map(detection->detector, i, job->num_clouds, &detection->maps[i], error);
  return status;
}

// ---- voxels ---------------------------------------------------------------------------------------------------------

struct vx_job vx_detection_voxelize(struct vx_detection *detection, int32_t *row_counts) {
  const struct vx_job *job = detection->job;
  struct vx_voxelize params = detection->detector->voxelize;
  bool backbone = vx_has_backbone(detection->detector);
  params.choice = job->params.detect.choice;
  return (struct vx_job){.op = VX_VOXELIZE,
                         .params.voxelize = params,
                         .inputs = {job->inputs[VX_POINTS]},
                         .tensors = backbone ? VOXEL_TENSORS : VX_TENSOR_BIT(VX_BEV_FEATURES),
                         .num_clouds = job->num_clouds,
                         .point_counts = job->point_counts,
                         .deskew = job->deskew,
                         .sections = job->sections,
                         .caller = &voxelize_caller,
                         .ctx = detection,
                         .pinned = job->pinned,
                         .helpers = job->helpers,
                         .stop = job->stop,
                         .row_counts = row_counts};
}

struct vx_sparse_rows vx_detection_rows(const struct vx_detection *detection) {
  const struct vx_layout *voxels = &detection->voxels;
  const unsigned char *at = detection->voxels_at;
  return (struct vx_sparse_rows){
      .num_clouds = detection->job->num_clouds,
      .num_rows = (int32_t)voxels->shape[VX_VOXEL_COORDS].dims[0],
      .coords = (const int32_t *)(const void *)(at + voxels->offset[VX_VOXEL_COORDS]),
      .features = (const float *)(const void *)(at + voxels->offset[VX_VOXEL_FEATURES]),
      .max_rows = detection->detector->max_rows,
      .half = detection->job->params.detect.precision == VX_FLOAT16,
  };
}

bool vx_detection_moves(const struct vx_detection *detection, int map) {
  return detection->detector->channels_first && detection->maps[map].rank != 0;
}

// ---- the network ----------------------------------------------------------------------------------------------------

// The part of a tensor for the clouds `first` .. `first` + `clouds` - 1.
static struct vx_network_value part_of(const struct vx_detection *detection, const char *name,
                                       const struct vx_shape *shape, void *data, int64_t first, int64_t clouds) {
  struct vx_network_value value = {.name = name, .shape = *shape};
  size_t cloud_bytes = shape->bytes / (size_t)detection->job->num_clouds;
  value.shape.dims[0] = clouds;
  value.shape.bytes = cloud_bytes * (size_t)clouds;
  value.data = (unsigned char *)data + cloud_bytes * (size_t)first;
  return value;
}

static enum vx_status run_network(const struct vx_detection *detection, int64_t first, int64_t clouds,
                                  struct error *error) {
  const struct vx_detector *detector = detection->detector;
  struct vx_session *session = detection->job->params.detect.session;
  struct vx_network_value output[VX_MAX_INPUTS];
  struct vx_network_value input =
      part_of(detection, detector->input, &detection->features, detection->features_at, first, clouds);
  struct vx_network_run run = {1, 0, &input, output};
  for (int i = 0; i < VX_MAX_INPUTS; i++) {
    if (detection->maps[i].rank != 0) {
      output[run.outputs++] =
          part_of(detection, detector->maps[i].output, &detection->maps[i], detection->written[i], first, clouds);
    }
  }
  return session ? detector->engine->session_run(session, &run, error)
                 : detector->engine->network_run(detector->network, &run, error);
}

enum vx_status vx_detection_network(struct vx_detection *detection, struct error *error) {
  int64_t clouds = detection->job->num_clouds, step = detection->detector->one_by_one ? 1 : clouds;
  enum vx_status status = VX_OK;
  for (int64_t first = 0; first < clouds && status == VX_OK; first += step) {
    status = vx_detection_check_time(detection, "the network ran", error);
    if (status == VX_OK) status = run_network(detection, first, step, error);
  }
  return status;
}

// ---- boxes ----------------------------------------------------------------------------------------------------------

static void read_head(const struct vx_detection *detection, struct vx_job *decode) {
  vx_set_decoder(&detection->job->params.detect, decode);
  for (int i = 0; i < VX_MAX_INPUTS; i++) {
    const struct vx_detector_map *map = &detection->detector->maps[i];
    if (map->output) {
      decode->inputs[i] = (struct vx_input){
          map->dtype, 4, {detection->job->num_clouds, map->height, map->width, map->channels}, detection->last[i]};
    }
  }
}

struct vx_job vx_detection_decode(struct vx_detection *detection) {
  const struct vx_job *job = detection->job;
  struct vx_job decode = {.op = (enum vx_op)detection->detector->head,
                          .tensors = job->tensors & VX_DECODE_TENSORS,
                          .num_clouds = job->num_clouds,
                          .point_counts = detection->items,
                          .caller = &decode_caller,
                          .ctx = detection,
                          .stop = job->stop,
                          .row_counts = job->row_counts};
  for (int32_t cloud = 0; cloud < job->num_clouds; cloud++)
    detection->items[cloud] = (int32_t)detection->detector->items;
  read_head(detection, &decode);
  return decode;
}

static void keep_boxes(struct vx_counts *counts, const struct vx_counts *decoded) {
  counts->below_threshold = decoded->below_threshold;
  counts->over_max_objects = decoded->over_max_objects;
  counts->invalid = decoded->invalid;
  counts->outside = decoded->outside;
  counts->over_pre_max = decoded->over_pre_max;
  counts->suppressed = decoded->suppressed;
  counts->over_post_max = decoded->over_post_max;
}

void vx_detection_add(struct vx_detection *detection, const struct vx_job *stage) {
  struct vx_job *job = detection->job;
  if (stage->op == VX_VOXELIZE)
    job->counts = stage->counts;
  else
    keep_boxes(&job->counts, &stage->counts);
  for (int i = 0; i < VX_STAGE_COUNT; i++) job->stage_ns[i] += stage->stage_ns[i];
}

// ---- the output -----------------------------------------------------------------------------------------------------

enum vx_status vx_detection_settle(struct vx_detection *detection, struct error *error) {
  return detection->job->tensors != 0 && !detection->output ? take_output(detection, error) : VX_OK;
}

int vx_detection_shown(const struct vx_detection *detection, struct vx_shown shown[VX_SHOWN_TENSORS]) {
  int count = 0;
  for (int i = 0; i < VX_MAX_INPUTS; i++)
    if (detection->maps[i].rank != 0)
      shown[count++] = (struct vx_shown){vx_map_tensor(detection->detector, i), detection->last[i]};
  shown[count++] = (struct vx_shown){VX_SPARSE_COORDS, detection->sparse.coords};
  shown[count++] = (struct vx_shown){VX_SPARSE_FEATURES, detection->sparse.features};
  shown[count++] = (struct vx_shown){VX_BEV_FEATURES, detection->features_at};
  return count;
}
