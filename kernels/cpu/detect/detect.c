// The way of a detection on the CPU: cpu_detect, at the end of this file. detect.h of kernels/ says what it computes.
//
// Its stages are jobs of other operations, which this one makes, and the network's run between them. They use the
// lane's scratch one after the other; what one leaves to the next is in the lane's second block, `between`. Runs on the
// thread that has the lane.
#include "kernels/cpu/detect/detect.h"

#include <stdio.h>
#include <string.h>

#include "kernels/cpu/base/lane.h"
#include "kernels/cpu/boxes/center.h"
#include "kernels/cpu/boxes/decode.h"
#include "kernels/cpu/voxelize/voxelize.h"
#include "kernels/ops.h"

struct detect {
  struct vx_job *job;
  const struct vx_detector *detector;
  struct vx_lane *lane;
  struct vx_layout voxels;              // of the first stage: bev_features alone
  struct vx_shape maps[VX_MAX_INPUTS];  // of all clouds, as the network writes them; rank 0: not given
  void *features;                       // bev_features
  float *written[VX_MAX_INPUTS];        // by the network
  float *last[VX_MAX_INPUTS];           // the same with the channels last, which may be the same memory
  struct vx_layout layout;              // of the job, once its boxes are counted
  unsigned char *output;                // NULL until then
};

// --- what the stages ask ---

// The first stage: its one tensor stays between the stages.
static enum vx_status give_features(void *cls, const struct vx_layout *layout, void **block, struct vx_error *error) {
  const struct detect *detect = cls;
  (void)layout, (void)error;
  *block = detect->features;
  return VX_OK;
}

static enum vx_status take_job_output(struct detect *detect, struct vx_error *error) {
  void *output = NULL;
  enum vx_status status = vx_take_output(detect->job, &detect->layout, &output, error);
  detect->output = output;
  return status;
}

// The last stage: its tensors are part of the job's. In the table of tensors they stand together, so that both layouts
// have the same distances between them.
static enum vx_status give_boxes(void *cls, const struct vx_layout *layout, void **block, struct vx_error *error) {
  struct detect *detect = cls;
  enum vx_status status = take_job_output(detect, error);
  if (status == VX_OK) {
    *block = detect->output + detect->layout.offset[__builtin_ctz(layout->tensors)];
  }
  return status;
}

static bool allow_scratch(void *cls, size_t bytes) {
  const struct vx_job *job = ((const struct detect *)cls)->job;
  return job->caller == NULL || job->caller->scratch == NULL || job->caller->scratch(job->cls, bytes);
}

static bool is_stopped(void *cls) {
  const struct vx_job *job = ((const struct detect *)cls)->job;
  return job->caller != NULL && job->caller->stopped != NULL && job->caller->stopped(job->cls);
}

static const struct vx_caller voxelize_caller = {give_features, allow_scratch, is_stopped};
static const struct vx_caller decode_caller = {give_boxes, allow_scratch, is_stopped};

static enum vx_status check_time(struct detect *detect, const char *next, struct vx_error *error) {
  if (!is_stopped(detect)) {
    return VX_OK;
  }
  snprintf(error->text, sizeof error->text, "ended before %s", next);
  return VX_STOPPED;
}

// --- memory between the stages ---

static bool is_moved(const struct detect *detect, int map) {
  return detect->detector->channels_first && detect->maps[map].rank != 0;
}

static void lay_out(struct detect *detect, struct cpu_arena *arena) {
  detect->features = cpu_arena_take(arena, detect->voxels.bytes, 1);
  for (int i = 0; i < VX_MAX_INPUTS; i++) {
    size_t bytes = detect->maps[i].bytes;
    detect->written[i] = detect->maps[i].rank == 0 ? NULL : cpu_arena_take(arena, bytes, 1);
    detect->last[i] = is_moved(detect, i) ? cpu_arena_take(arena, bytes, 1) : detect->written[i];
  }
}

// The shape of a map of `clouds` clouds, as the network has it.
static enum vx_status measure_map(const struct vx_detector *detector, int map, int64_t clouds, struct vx_shape *shape,
                                  struct vx_error *error) {
  const struct vx_detector_map *of = &detector->maps[map];
  *shape = (struct vx_shape){.dtype = VX_FLOAT32, .rank = 4, .dims = {clouds, of->height, of->width, of->channels}};
  if (detector->channels_first) {
    memcpy(shape->dims + 1, (int64_t[]){of->channels, of->height, of->width}, 3 * sizeof *shape->dims);
  }
  shape->bytes = sizeof(float);
  for (int i = 0; i < shape->rank; i++) {
    if (__builtin_mul_overflow(shape->bytes, (uint64_t)shape->dims[i], &shape->bytes)) {
      return vx_refuse(error, "the network's %s does not fit in memory", of->output);
    }
  }
  return VX_OK;
}

static enum vx_status prepare(struct detect *detect, const struct vx_job *voxelize, struct vx_error *error) {
  struct cpu_arena measured = {0};
  struct vx_sizes sizes = vx_sizes_of(voxelize);
  enum vx_status status = vx_layout_of(voxelize->tensors, &sizes, &detect->voxels, error);
  for (int i = 0; i < VX_MAX_INPUTS && status == VX_OK; i++) {
    if (detect->detector->maps[i].output != NULL) {
      status = measure_map(detect->detector, i, detect->job->num_clouds, &detect->maps[i], error);
    }
  }
  if (status == VX_OK) {
    lay_out(detect, &measured);
    status = cpu_arena_reserve(&detect->lane->between, &measured, detect->job, error);
  }
  if (status == VX_OK) {
    lay_out(detect, &detect->lane->between);
  }
  return status;
}

// --- the stages ---

static struct vx_job voxelize_job(struct detect *detect, int32_t *row_counts) {
  const struct vx_job *job = detect->job;
  return (struct vx_job){.op = VX_VOXELIZE,
                         .params.voxelize = detect->detector->voxelize,
                         .inputs = {job->inputs[VX_POINTS]},
                         .tensors = VX_TENSOR_BIT(VX_BEV_FEATURES),
                         .num_clouds = job->num_clouds,
                         .point_counts = job->point_counts,
                         .caller = &voxelize_caller,
                         .cls = detect,
                         .row_counts = row_counts};
}

static void add_times(struct vx_job *job, const struct vx_job *stage) {
  for (int i = 0; i < VX_STAGE_COUNT; i++) {
    job->stage_ns[i] += stage->stage_ns[i];
  }
}

static enum vx_status voxelize(struct detect *detect, struct vx_error *error) {
  int32_t row_counts[VX_MAX_CLOUDS];
  struct vx_job voxelize = voxelize_job(detect, row_counts);
  enum vx_status status = vx_begin_job(&voxelize, error);
  if (status == VX_OK) {
    status = prepare(detect, &voxelize, error);
  }
  if (status == VX_OK) {
    status = cpu_voxelize(detect->lane, &voxelize, error);
  }
  detect->job->counts = voxelize.counts;
  add_times(detect->job, &voxelize);
  return status;
}

// Runs the network over `clouds` clouds, `first` and those behind it.
static enum vx_status run_network(struct detect *detect, int64_t first, int64_t clouds, struct vx_error *error) {
  const struct vx_detector *detector = detect->detector;
  struct vx_network_value output[VX_MAX_INPUTS], input = {.name = detector->input};
  struct vx_network_run run = {1, 0, &input, output};
  int64_t all = detect->job->num_clouds;
  input.shape = detect->voxels.shape[VX_BEV_FEATURES];
  size_t cloud_bytes = input.shape.bytes / (size_t)all;
  input.shape.dims[0] = clouds;
  input.shape.bytes = cloud_bytes * (size_t)clouds;
  input.data = (unsigned char *)detect->features + cloud_bytes * (size_t)first;
  for (int i = 0; i < VX_MAX_INPUTS; i++) {
    if (detect->maps[i].rank != 0) {
      struct vx_network_value *value = &output[run.outputs++];
      *value = (struct vx_network_value){.name = detector->maps[i].output, .shape = detect->maps[i]};
      value->shape.dims[0] = clouds;
      value->shape.bytes = detect->maps[i].bytes / (size_t)all * (size_t)clouds;
      value->data = (unsigned char *)detect->written[i] + detect->maps[i].bytes / (size_t)all * (size_t)first;
    }
  }
  return detector->engine->network_run(detector->network, &run, error);
}

// [clouds, channels, cells] to [clouds, cells, channels]
static void move_channels(const struct vx_detector_map *map, int64_t clouds, const float *from, float *to) {
  int64_t cells = map->height * map->width;
  for (int64_t cloud = 0; cloud < clouds; cloud++) {
    for (int64_t cell = 0; cell < cells; cell++) {
      for (int64_t channel = 0; channel < map->channels; channel++) {
        *to++ = from[channel * cells + cell];
      }
    }
    from += cells * map->channels;
  }
}

static enum vx_status compute_maps(struct detect *detect, struct vx_error *error) {
  const struct vx_detector *detector = detect->detector;
  int64_t began = cpu_now_ns(), clouds = detect->job->num_clouds, step = detector->one_by_one ? 1 : clouds;
  enum vx_status status = VX_OK;
  for (int64_t first = 0; first < clouds && status == VX_OK; first += step) {
    status = check_time(detect, "the network ran", error);
    if (status == VX_OK) {
      status = run_network(detect, first, step, error);
    }
  }
  for (int i = 0; i < VX_MAX_INPUTS && status == VX_OK; i++) {
    if (is_moved(detect, i)) {
      move_channels(&detector->maps[i], clouds, detect->written[i], detect->last[i]);
    }
  }
  detect->job->stage_ns[VX_STAGE_NETWORK] = cpu_now_ns() - began;
  return status;
}

static void keep_counts(struct vx_counts *counts, const struct vx_counts *decoded) {
  counts->below_threshold = decoded->below_threshold;
  counts->over_max_objects = decoded->over_max_objects;
  counts->invalid = decoded->invalid;
  counts->outside = decoded->outside;
  counts->over_pre_max = decoded->over_pre_max;
  counts->suppressed = decoded->suppressed;
  counts->over_post_max = decoded->over_post_max;
}

static void read_head(const struct detect *detect, struct vx_job *decode) {
  const struct vx_detector *detector = detect->detector;
  if (detector->head == VX_DECODE) {
    decode->params.decode = detector->params.decode;
  } else {
    decode->params.center = detector->params.center;
  }
  for (int i = 0; i < VX_MAX_INPUTS; i++) {
    const struct vx_detector_map *map = &detector->maps[i];
    if (map->output != NULL) {
      decode->inputs[i] = (struct vx_input){
          VX_FLOAT32, 4, {detect->job->num_clouds, map->height, map->width, map->channels}, detect->last[i]};
    }
  }
}

static enum vx_status decode(struct detect *detect, struct vx_error *error) {
  struct vx_job *job = detect->job;
  int32_t items[VX_MAX_CLOUDS];
  struct vx_job decode = {.op = (enum vx_op)detect->detector->head,
                          .tensors = job->tensors & VX_DECODE_TENSORS,
                          .num_clouds = job->num_clouds,
                          .point_counts = items,
                          .caller = &decode_caller,
                          .cls = detect,
                          .row_counts = job->row_counts};
  for (int32_t cloud = 0; cloud < job->num_clouds; cloud++) {
    items[cloud] = (int32_t)detect->detector->items;
  }
  read_head(detect, &decode);
  enum vx_status status = check_time(detect, "boxes were made", error);
  if (status == VX_OK) {
    status = vx_begin_job(&decode, error);
  }
  if (status == VX_OK) {
    status = detect->detector->head == VX_DECODE ? cpu_decode(detect->lane, &decode, error)
                                                 : cpu_decode_center(detect->lane, &decode, error);
  }
  keep_counts(&job->counts, &decode.counts);
  add_times(job, &decode);
  return status;
}

// Copies what is left between the stages to the job's tensors, as far as they are wanted.
static enum vx_status show_stages(struct detect *detect, struct vx_error *error) {
  const struct vx_job *job = detect->job;
  const struct {
    enum vx_tensor tensor;
    const void *from;
  } shown[] = {{VX_BEV_FEATURES, detect->features},
               {VX_HEAD_CLS_PREDS, detect->last[VX_CLS_PREDS]},
               {VX_HEAD_BOX_PREDS, detect->last[VX_BOX_PREDS]},
               {VX_HEAD_DIR_CLS_PREDS, detect->last[VX_DIR_CLS_PREDS]}};
  int64_t began = cpu_now_ns();
  enum vx_status status = job->tensors != 0 && detect->output == NULL ? take_job_output(detect, error) : VX_OK;
  for (size_t i = 0; i < sizeof shown / sizeof *shown && status == VX_OK; i++) {
    const struct vx_shape *shape = &detect->layout.shape[shown[i].tensor];
    if ((job->tensors & VX_TENSOR_BIT(shown[i].tensor)) != 0 && shape->bytes > 0) {
      memcpy(detect->output + detect->layout.offset[shown[i].tensor], shown[i].from, shape->bytes);
    }
  }
  detect->job->stage_ns[VX_STAGE_COPY_OUT] = cpu_now_ns() - began;
  return status;
}

enum vx_status cpu_detect(struct vx_lane *lane, struct vx_job *job, struct vx_error *error) {
  struct detect detect = {.job = job, .detector = job->params.detect.detector, .lane = lane};
  enum vx_status status = voxelize(&detect, error);
  if (status == VX_OK) {
    status = compute_maps(&detect, error);
  }
  if (status == VX_OK) {
    status = decode(&detect, error);
  }
  return status == VX_OK ? show_stages(&detect, error) : status;
}
