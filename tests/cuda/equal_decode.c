// See equal.h: decoded maps of both heads.
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/half.h"
#include "tests/cuda/equal.h"

// ---- maps -----------------------------------------------------------------------------------------------------------

enum values {
  SOME_REACH,  // few are above 0
  EVEN,        // -4..4
  EQUAL,
  TIED,     // four different values
  STRANGE,  // some are NaN, infinite, huge or a zero of either sign
  NOTHING,  // NaN and -inf
  RISING,
  SMALL,
  KINDS
};

static float value_of(struct random *random, enum values kind, int64_t i) {
  static const uint32_t strange[] = {0x7FC00000u, 0x7F800000u, 0xFF800000u, 0x7F812345u,
                                     0x7149F2CAu, 0x80000000u, 0u,          0x00000001u};
  float unit = 2 * random_unit(random) - 1;
  switch (kind) {
    case SOME_REACH: return random_one_in(random, 50) ? 4 * random_unit(random) : -5 + unit;
    case EQUAL: return 1.25f;
    case TIED: return (float)random_below(random, 4) - 1;
    case STRANGE: return random_one_in(random, 9) ? vx_bits_float(strange[random_below(random, 8)]) : 3 * unit;
    case NOTHING: return random_one_in(random, 2) ? NAN : -INFINITY;
    case RISING: return (float)(i % 1000) * 0.01f - 2;
    case SMALL: return 0.3f * unit;
    default: return 4 * unit;
  }
}

// The memory of one map. The device can read it in place if it is from the backend.
struct map {
  const struct vx_backend *backend;  // NULL: from malloc
  struct vx_device *device;
  void *memory;
  size_t bytes;
};

static void fill(struct random *random, enum values kind, const struct vx_input *input, void *to) {
  int64_t count = 1;
  for (int i = 0; i < input->rank; i++) count *= input->dims[i];
  for (int64_t i = 0; i < count; i++) {
    float value = value_of(random, kind, i);
    if (input->dtype == VX_FLOAT16)
      ((uint16_t *)to)[i] = vx_float_to_half(value);
    else
      ((float *)to)[i] = value;
  }
}

static size_t bytes_of(const struct vx_input *input) {
  size_t bytes = vx_dtype_size(input->dtype);
  for (int i = 0; i < input->rank; i++) bytes *= (size_t)input->dims[i];
  return bytes;
}

// Fills an input with values, at any alignment that its type allows. `map` owns the memory.
static void give_map(struct random *random, struct side *side, enum values kind, struct vx_input *input,
                     struct map *map) {
  size_t shift = (size_t)random_below(random, 8) * vx_dtype_size(input->dtype);
  *map = (struct map){.bytes = bytes_of(input) + shift + 1};
  if (random_one_in(random, 3)) {
    map->memory = malloc(map->bytes);
  } else {
    map->backend = side->backend;
    map->device = side->device;
    map->memory = side->backend->host_alloc(side->device, map->bytes);
  }
  if (map->memory == NULL) {
    fprintf(stderr, "no memory for a map of %zu bytes\n", map->bytes);
    exit(2);
  }
  fill(random, kind, input, (char *)map->memory + shift);
  input->data = (char *)map->memory + shift;
}

static void free_map(struct map *map) {
  if (map->backend != NULL)
    map->backend->host_release(map->device, map->memory, map->bytes);
  else
    free(map->memory);
}

// ---- heads ----------------------------------------------------------------------------------------------------------

struct shape {
  int32_t clouds, height, width, classes;
  enum values logits, moves;
};

static struct vx_input map_of(struct random *random, const struct shape *shape, int64_t channels) {
  return (struct vx_input){random_one_in(random, 3) ? VX_FLOAT16 : VX_FLOAT32,
                           4,
                           {shape->clouds, shape->height, shape->width, channels},
                           NULL};
}

static float random_threshold(struct random *random) {
  static const float thresholds[] = {0, 1, 0.1f, 0.5f, 0.5f, 0.9f};
  return thresholds[random_below(random, sizeof thresholds / sizeof *thresholds)];
}

static int32_t random_limit(struct random *random) {
  static const int32_t limits[] = {1, 2, 63, 64, 65, 83, 500, 1000, 4096, VX_MAX_RANKED};
  return limits[random_below(random, sizeof limits / sizeof *limits)];
}

static struct vx_nms random_nms(struct random *random) {
  static const float thresholds[] = {0, 0.01f, 0.2f, 0.7f, 1};
  return (struct vx_nms){.iou_threshold = thresholds[random_below(random, 5)],
                         .pre_max = random_limit(random),
                         .post_max = random_limit(random),
                         .class_agnostic = random_one_in(random, 2)};
}

static void random_range(struct random *random, float *min, float *max) {
  for (int axis = 0; axis < 3; axis++) {
    min[axis] = -30 * random_unit(random) - 0.5f;
    max[axis] = 30 * random_unit(random) + 0.5f;
  }
}

// Divides the classes among at most `most` tasks, or makes no tasks.
static void random_tasks(struct random *random, int32_t classes, int32_t most, struct vx_head_tasks *tasks) {
  while (classes > 0 && !random_one_in(random, 8)) {
    int32_t own = tasks->count == most - 1 ? classes : 1 + random_below(random, classes < 3 ? classes : 3);
    tasks->classes[tasks->count++] = own;
    classes -= own;
  }
  if (tasks->count > 0 && classes > 0) tasks->classes[tasks->count - 1] += classes;
}

static void random_task_sizes(struct random *random, struct vx_decode *params) {
  int32_t left = params->num_sizes - params->tasks.count;  // each task has one
  params->num_task_sizes = params->tasks.count;
  for (int32_t task = 0; task < params->tasks.count; task++) {
    int32_t more = task + 1 == params->tasks.count ? left : random_below(random, left + 1);
    params->task_sizes[task] = 1 + more;
    left -= more;
  }
}

static struct vx_job random_anchors(struct random *random, const struct shape *shape) {
  struct vx_job asked = {.op = VX_DECODE};
  struct vx_decode *params = &asked.params.decode;
  bool many = random_one_in(random, 6);
  *params = (struct vx_decode){.num_sizes = 1 + random_below(random, many ? VX_MAX_ANCHOR_SIZES : 3),
                               .num_rotations = 1 + random_below(random, many ? VX_MAX_ANCHOR_ROTATIONS : 2),
                               .heading = random_one_in(random, 3) ? VX_HEADING_COS_SIN : VX_HEADING_ANGLE,
                               .labels = random_one_in(random, 2) ? VX_LABELS_ALL : VX_LABELS_BEST,
                               .nms_groups = random_one_in(random, 2) ? VX_GROUP_CLASS : VX_GROUP_TASK,
                               .velocity = random_one_in(random, 3),
                               .align_center = random_one_in(random, 2),
                               .dir_offset = random_unit(random),
                               .dir_limit_offset = random_unit(random),
                               .dir_bins = 1 + random_below(random, random_one_in(random, 3) ? VX_MAX_DIR_BINS : 2),
                               .score_threshold = random_threshold(random),
                               .nms = random_nms(random)};
  random_range(random, params->range_min, params->range_max);
  for (int i = 0; i < VX_MAX_ANCHOR_SIZES; i++) {
    for (int axis = 0; axis < 3; axis++) params->sizes[i][axis] = 0.3f + 4 * random_unit(random);
    params->bottoms[i] = -2 * random_unit(random);
  }
  for (int i = 0; i < VX_MAX_ANCHOR_ROTATIONS; i++) params->rotations[i] = 3 * random_unit(random);
  if (random_one_in(random, 2)) random_tasks(random, shape->classes, params->num_sizes, &params->tasks);
  random_task_sizes(random, params);
  int64_t anchors = vx_cell_anchors(params);
  asked.inputs[VX_CLS_PREDS] = map_of(random, shape, vx_cell_logits(params, anchors * shape->classes));
  asked.inputs[VX_BOX_PREDS] = map_of(random, shape, anchors * vx_code_values(params));
  if (random_one_in(random, 2)) asked.inputs[VX_DIR_CLS_PREDS] = map_of(random, shape, anchors * params->dir_bins);
  return asked;
}

static void random_powers(struct random *random, int32_t classes, int32_t *count, float powers[VX_MAX_CLASSES]) {
  *count = random_one_in(random, 2) ? 1 : classes;
  for (int i = 0; i < *count; i++) powers[i] = random_one_in(random, 4) ? 0 : 3 * random_unit(random);
}

static struct vx_job random_centers(struct random *random, const struct shape *shape) {
  struct vx_job asked = {.op = VX_DECODE_CENTER};
  struct vx_decode_center *params = &asked.params.center;
  *params = (struct vx_decode_center){.voxel_size = {0.1f, 0.2f, 0.2f},
                                      .stride = 1 + random_below(random, 8),
                                      .best_class = random_one_in(random, 2),
                                      .rot_order = random_one_in(random, 2) ? VX_COS_SIN : VX_SIN_COS,
                                      .score_threshold = random_threshold(random),
                                      .max_objects = random_limit(random),
                                      .limited = random_one_in(random, 2),
                                      .nms = random_nms(random)};
  random_range(random, params->range_min, params->range_max);
  random_range(random, params->center_min, params->center_max);
  random_tasks(random, shape->classes, VX_MAX_TASKS, &params->tasks);
  int64_t tasks = params->tasks.count == 0 ? 1 : params->tasks.count;
  params->nms.circle = random_one_in(random, 2);
  params->num_radii = random_one_in(random, 2) ? 1 : (int32_t)tasks;
  for (int i = 0; i < VX_MAX_TASKS; i++) params->radii[i] = random_one_in(random, 4) ? 0 : 4 * random_unit(random);
  params->nms.radius = params->radii[0];
  asked.inputs[VX_HEATMAP] = map_of(random, shape, shape->classes);
  asked.inputs[VX_CENTER] = map_of(random, shape, tasks * 2);
  asked.inputs[VX_HEIGHT] = map_of(random, shape, tasks);
  asked.inputs[VX_DIM] = map_of(random, shape, tasks * 3);
  asked.inputs[VX_ROT] = map_of(random, shape, tasks * 2);
  if (random_one_in(random, 2)) asked.inputs[VX_VEL] = map_of(random, shape, tasks * 2);
  if (random_one_in(random, 2)) {
    asked.inputs[VX_IOU] = map_of(random, shape, tasks);
    random_powers(random, shape->classes, &params->num_score_powers, params->score_powers);
    random_powers(random, shape->classes, &params->num_iou_powers, params->iou_powers);
    params->rectified_threshold = random_one_in(random, 2) ? -1 : random_unit(random) / 2;
  }
  return asked;
}

// ---- jobs -----------------------------------------------------------------------------------------------------------

// The pairs grow with the square of the boxes, so a large job compares at most 2,000 boxes.
static void limit_work(struct vx_nms *nms, int64_t items) {
  const int32_t most = 2000;
  if (items > 20000 && nms->pre_max > most) nms->pre_max = most;
}

static void run(struct side sides[2], struct random *random, const struct shape *shape, struct vx_job *asked,
                const char *name) {
  static struct scan scan;
  struct map maps[VX_MAX_INPUTS] = {{.memory = NULL}};
  for (int i = 0; i < VX_MAX_INPUTS; i++) {
    struct vx_input *input = &asked->inputs[i];
    if (input->rank != 0) give_map(random, &sides[1], i == 0 ? shape->logits : shape->moves, input, &maps[i]);
  }
  asked->tensors = random_one_in(random, 3) ? random_bits(random) & VX_DECODE_TENSORS : VX_DECODE_TENSORS;
  int32_t per_cloud = (int32_t)(vx_sizes_of(asked).rows / shape->clouds);
  scan = (struct scan){.points = (void *)asked->inputs[0].data, .num_clouds = shape->clouds, .unseen = true};
  scan.num_points = (int64_t)per_cloud * shape->clouds;
  for (int32_t i = 0; i < shape->clouds; i++) scan.counts[i] = per_cloud;
  snprintf(scan.name, sizeof scan.name, "%dx%dx%d, %d classes, values %d %d", shape->clouds, shape->height,
           shape->width, shape->classes, (int)shape->logits, (int)shape->moves);
  limit_work(asked->op == VX_DECODE ? &asked->params.decode.nms : &asked->params.center.nms, scan.num_points);
  compare(sides, asked, &scan, name);
  for (int i = 0; i < VX_MAX_INPUTS; i++) free_map(&maps[i]);
}

static void run_both(struct side sides[2], struct random *random, const struct shape *shape, const char *name) {
  struct vx_job anchors = random_anchors(random, shape), centers = random_centers(random, shape);
  run(sides, random, shape, &anchors, name);
  run(sides, random, shape, &centers, name);
}

static struct shape random_shape(struct random *random, int64_t largest) {
  static const int32_t classes[] = {1, 1, 2, 3, 3, 10, VX_MAX_CLASSES};
  struct shape shape = {.clouds = random_one_in(random, 2) ? 1 : 1 + random_below(random, 5),
                        .classes = classes[random_below(random, 7)],
                        .logits = (enum values)random_below(random, KINDS),
                        .moves = (enum values)random_below(random, KINDS)};
  if (random_one_in(random, 20)) shape.clouds = 1 + random_below(random, VX_MAX_CLOUDS);
  int64_t cells = (largest < 200000 ? largest : 200000) / shape.clouds / (shape.classes * INT64_C(4));
  shape.height = 1 + random_below(random, cells < 4 ? 1 : (int32_t)sqrt((double)cells));
  shape.width = 1 + random_below(random, cells / shape.height < 2 ? 1 : (int32_t)(cells / shape.height));
  return shape;
}

static const struct {
  const char *name;
  struct shape shape;
} edges[] = {
    {"one cell", {1, 1, 1, 1, EQUAL, SMALL}},
    {"one cell, all classes", {1, 1, 1, VX_MAX_CLASSES, RISING, SMALL}},
    {"no rows", {2, 0, 3, 2, EVEN, SMALL}},
    {"no columns", {1, 3, 0, 2, EVEN, SMALL}},
    {"one row", {2, 1, 65, 3, TIED, SMALL}},
    {"no logits", {3, 5, 7, 3, NOTHING, SMALL}},
    {"all logits equal", {2, 9, 11, 3, EQUAL, EVEN}},
    {"all boxes strange", {2, 9, 11, 3, EVEN, STRANGE}},
    {"no boxes", {1, 8, 8, 2, EQUAL, NOTHING}},
    {"strange logits", {4, 6, 5, VX_MAX_CLASSES, STRANGE, SMALL}},
    {"most clouds", {VX_MAX_CLOUDS, 1, 1, 2, EVEN, SMALL}},
};

void test_decode(struct side sides[2], uint64_t seed, int jobs, int64_t largest) {
  struct random random = {seed + 3};
  for (size_t i = 0; i < sizeof edges / sizeof *edges; i++)
    for (int again = 0; again < (largest < 20000 ? 2 : 4); again++)
      run_both(sides, &random, &edges[i].shape, edges[i].name);
  for (int i = 0; i < jobs; i++) {
    struct shape shape = random_shape(&random, largest);
    run_both(sides, &random, &shape, "random maps");
  }
  // About as large as the maps of KITTI and nuScenes heads.
  static const struct shape large[] = {{1, 248, 216, 3, SOME_REACH, SMALL},
                                       {1, 180, 180, 10, SOME_REACH, SMALL},
                                       {1, 248, 216, 3, EVEN, SMALL},
                                       {2, 128, 128, 10, EVEN, SMALL}};
  for (size_t i = 0; largest > 1000000 && i < sizeof large / sizeof *large; i++)
    run_both(sides, &random, &large[i], "large maps");
}
