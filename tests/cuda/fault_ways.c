// See fault_ways.h.
#include "tests/cuda/fault_ways.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/decoder.h"
#include "kernels/half.h"
#include "tests/cuda/copying_network.h"
#include "tests/support/jobs.h"

#define BIT VX_TENSOR_BIT
#define ALL VX_VOXEL_TENSORS
#define ENCODED (BIT(VX_ENCODED_FEATURES) | BIT(VX_BEV_FEATURES))
#define SERIALIZED (VX_SERIAL_TENSORS | VX_POOL_TENSORS | VX_CHAIN_TENSORS)
#define SHOWN (VX_DETECT_TENSORS & ~(VX_CENTER_MAPS | VX_SPARSE_TENSORS))
#define UNCAPPED (ALL & ~(BIT(VX_VOXELS) | BIT(VX_PILLAR_FEATURES) | BIT(VX_VOXEL_POINT_MASK)))

// SIDE: side of the maps, in cells; WIDTH: of an encoder.
enum { NUM_POINTS = 6000, COLUMNS = 4, CLOUDS = WAY_CLOUDS, NUM_BOXES = 18000, SIDE = 10, WIDTH = 8 };

const struct way ways[] = {
    {"one cloud", 5, 1, VX_ORDER_FIRST, VX_FLOAT32, false, ALL, 2, VX_VOXELIZE, PLAIN},
    {"counts only", 5, 1, VX_ORDER_FIRST, VX_FLOAT32, false, 0, 2, VX_VOXELIZE, PLAIN},
    {"large cap", 100, 1, VX_ORDER_FIRST, VX_FLOAT32, false, ALL, 2, VX_VOXELIZE, PLAIN},
    {"no cap", 0, 1, VX_ORDER_FIRST, VX_FLOAT32, false, UNCAPPED, 2, VX_VOXELIZE, PLAIN},
    {"batch", 5, CLOUDS, VX_ORDER_FIRST, VX_FLOAT32, false, ALL, 2, VX_VOXELIZE, PLAIN},
    {"order=key", 5, CLOUDS, VX_ORDER_KEY, VX_FLOAT32, false, ALL, 2, VX_VOXELIZE, PLAIN},
    {"order=key, hashed", 5, CLOUDS, VX_ORDER_KEY, VX_FLOAT32, false, ALL, 0.02f, VX_VOXELIZE, PLAIN},
    {"order=key, marked", 5, CLOUDS, VX_ORDER_KEY, VX_FLOAT32, false, ALL, 0.1f, VX_VOXELIZE, PLAIN},
    {"block filter", 5, CLOUDS, VX_ORDER_KEY, VX_FLOAT32, true, ALL, 2, VX_VOXELIZE, PLAIN},
    {"float16", 5, CLOUDS, VX_ORDER_FIRST, VX_FLOAT16, false, ALL, 2, VX_VOXELIZE, PLAIN},
    {"one voxel", 100, 1, VX_ORDER_FIRST, VX_FLOAT32, false, ALL, 20, VX_VOXELIZE, PLAIN},
    {"one voxel, no cap", 0, 1, VX_ORDER_FIRST, VX_FLOAT32, false, UNCAPPED, 20, VX_VOXELIZE, PLAIN},
    {"samples", 5, 1, VX_ORDER_FIRST, VX_FLOAT32, false, VX_SAMPLED_TENSORS, 2, VX_FPS, SAMPLED},
    {"samples of a batch", 5, CLOUDS, VX_ORDER_FIRST, VX_FLOAT16, false, VX_SAMPLED_TENSORS, 2, VX_FPS, SAMPLED},
    {"samples counted", 5, 1, VX_ORDER_FIRST, VX_FLOAT32, false, 0, 2, VX_FPS, SAMPLED},
    {"samples of voxels", 5, CLOUDS, VX_ORDER_FIRST, VX_FLOAT32, false, ALL | VX_SAMPLED_TENSORS, 2, VX_VOXELIZE,
     SAMPLED},
    {"transform", 0, 1, VX_ORDER_FIRST, VX_FLOAT32, false, VX_CHAIN_TENSORS, 0, VX_POINTS_OP, PLAIN},
    {"transform counted", 0, 1, VX_ORDER_FIRST, VX_FLOAT32, false, 0, 0, VX_POINTS_OP, PLAIN},
    {"transform of a batch", 0, CLOUDS, VX_ORDER_FIRST, VX_FLOAT16, true, VX_CHAIN_TENSORS, 0, VX_POINTS_OP, PLAIN},
    {"maps", 5, 1, VX_ORDER_FIRST, VX_FLOAT32, false, ALL | VX_DENSE_TENSORS, 2, VX_VOXELIZE, PLAIN},
    {"maps of a batch", 0, CLOUDS, VX_ORDER_KEY, VX_FLOAT16, true, VX_DENSE_TENSORS, 0.5f, VX_VOXELIZE, PLAIN},
    {"encoder", 5, 1, VX_ORDER_FIRST, VX_FLOAT32, false, ENCODED, 2, VX_VOXELIZE, PLAIN},
    {"encoder of layers", 40, CLOUDS, VX_ORDER_KEY, VX_FLOAT16, false, ENCODED, 2, VX_VOXELIZE, PLAIN},
    {"scatter", 0, 1, VX_ORDER_FIRST, VX_FLOAT32, false, VX_SCATTER_TENSORS, 40, VX_SCATTER, PLAIN},
    {"scatter counted", 0, 1, VX_ORDER_FIRST, VX_FLOAT32, false, 0, 40, VX_SCATTER, PLAIN},
    {"scatter of a batch", 0, CLOUDS, VX_ORDER_FIRST, VX_FLOAT16, false, VX_SCATTER_TENSORS, 30, VX_SCATTER, PLAIN},
    {"scatter that waits", 0, 1, VX_ORDER_FIRST, VX_FLOAT16, false, VX_SCATTER_TENSORS, 600000, VX_SCATTER, PLAIN},
    {"serialize", 0, 1, VX_ORDER_FIRST, VX_FLOAT32, false, SERIALIZED, 0.5f, VX_SERIALIZE, PLAIN},
    {"serialize counted", 0, CLOUDS, VX_ORDER_FIRST, VX_FLOAT32, false, 0, 0.5f, VX_SERIALIZE, PLAIN},
    {"serialize a batch", 0, CLOUDS, VX_ORDER_FIRST, VX_FLOAT16, false, SERIALIZED, 0.5f, VX_SERIALIZE, CHAINED},
    {"range image", 0, 1, VX_ORDER_FIRST, VX_FLOAT32, false, VX_RANGE_IMAGE_TENSORS, 0, VX_RANGE_IMAGE_OP, PLAIN},
    {"range image counted", 0, 1, VX_ORDER_FIRST, VX_FLOAT32, false, 0, 0, VX_RANGE_IMAGE_OP, SECTIONED},
    {"range image of rings", 0, CLOUDS, VX_ORDER_FIRST, VX_FLOAT16, true, BIT(VX_RANGE_IMAGE), 0, VX_RANGE_IMAGE_OP,
     PLAIN},
    {"range image of rings behind a step", 0, CLOUDS, VX_ORDER_FIRST, VX_FLOAT32, true,
     VX_RANGE_IMAGE_TENSORS | VX_CHAIN_TENSORS, 0, VX_RANGE_IMAGE_OP, CHAINED},
    {"boxes", 0, 1, VX_ORDER_FIRST, VX_FLOAT32, false, VX_NMS_TENSORS, 0, VX_NMS, PLAIN},
    {"boxes counted", 0, 1, VX_ORDER_FIRST, VX_FLOAT32, true, 0, 0, VX_NMS, PLAIN},
    {"boxes of a batch", 0, CLOUDS, VX_ORDER_FIRST, VX_FLOAT32, true, VX_NMS_TENSORS, 0, VX_NMS, PLAIN},
    {"decode", 0, 1, VX_ORDER_FIRST, VX_FLOAT32, false, VX_DECODE_TENSORS, 0, VX_DECODE, PLAIN},
    {"decode counted", 0, CLOUDS, VX_ORDER_FIRST, VX_FLOAT32, false, 0, 0, VX_DECODE, PLAIN},
    {"decode a batch", 0, CLOUDS, VX_ORDER_FIRST, VX_FLOAT16, false, VX_DECODE_TENSORS, 0, VX_DECODE, PLAIN},
    {"decode centres", 0, CLOUDS, VX_ORDER_FIRST, VX_FLOAT32, false, VX_DECODE_TENSORS, 0, VX_DECODE_CENTER, PLAIN},
    {"detection", 5, 1, VX_ORDER_FIRST, VX_FLOAT32, false, VX_DECODE_TENSORS, 2, VX_DETECT, PLAIN},
    {"detection counted", 5, CLOUDS, VX_ORDER_FIRST, VX_FLOAT32, false, 0, 2, VX_DETECT, PLAIN},
    {"detection shown", 5, CLOUDS, VX_ORDER_FIRST, VX_FLOAT32, true, SHOWN, 2, VX_DETECT, PLAIN},
    {"detection with a backbone", 5, CLOUDS, VX_ORDER_FIRST, VX_FLOAT32, false, SHOWN | VX_SPARSE_TENSORS, 2, VX_DETECT,
     SPARSE},
    {"backbone", 5, CLOUDS, VX_ORDER_KEY, VX_FLOAT32, false, VX_BACKBONE_TENSORS, 2, VX_BACKBONE, SPARSE},
    {"backbone counted", 5, 1, VX_ORDER_FIRST, VX_FLOAT32, false, 0, 2, VX_BACKBONE, SPARSE},
    {"sections", 5, 1, VX_ORDER_KEY, VX_FLOAT32, true, ALL, 0.5f, VX_VOXELIZE, SECTIONED},
    {"sections of a transform", 0, 1, VX_ORDER_FIRST, VX_FLOAT32, false, VX_CHAIN_TENSORS, 0, VX_POINTS_OP, SECTIONED},
    {"voxels behind a step", 5, CLOUDS, VX_ORDER_FIRST, VX_FLOAT16, false, ALL | VX_CHAIN_TENSORS, 2, VX_VOXELIZE,
     CHAINED},
    {"detection behind a step", 5, 1, VX_ORDER_FIRST, VX_FLOAT32, false, VX_DECODE_TENSORS | VX_CHAIN_TENSORS, 2,
     VX_DETECT, CHAINED},
    {"chosen", 5, CLOUDS, VX_ORDER_FIRST, VX_FLOAT32, false, ALL, 1, VX_VOXELIZE, CHOSEN},
    {"places", 5, 1, VX_ORDER_FIRST, VX_FLOAT32, false, ALL, 2, VX_VOXELIZE, PLACED},
    {"samples of few", 0, 1, VX_ORDER_KEY, VX_FLOAT32, true, VX_SAMPLED_TENSORS, 0.5f, VX_VOXELIZE, SAMPLED},
};
const int num_ways = sizeof ways / sizeof *ways;
// Has more cells than a new lane has memory for.
const struct way growing = {"growth", 5, 1, VX_ORDER_KEY, VX_FLOAT32, false, ALL, 0.14f, VX_VOXELIZE, PLAIN};

static struct vx_session session;
static uint16_t halves[NUM_POINTS * COLUMNS];
static float floats[NUM_POINTS * COLUMNS];
static float boxes[NUM_BOXES][VX_BOX_VALUES], scores[NUM_BOXES];
static int32_t labels[NUM_BOXES];
static const int32_t counts[CLOUDS] = {2000, 0, 4000};
static const int32_t box_counts[CLOUDS] = {NUM_BOXES / 3, 0, NUM_BOXES - NUM_BOXES / 3};
static const int32_t all_boxes[1] = {NUM_BOXES};
static const int32_t sample_counts[CLOUDS] = {50, 0, 70};
static const int32_t map_counts[CLOUDS] = {SIDE * SIDE * 2, SIDE *SIDE * 2, SIDE *SIDE * 2};
static const int32_t one_count[1] = {NUM_POINTS};
static const int32_t section_points[WAY_SECTIONS] = {1000, 0, 4999, 1};

static void fill_points(void) {
  uint64_t state = 7;
  for (int i = 0; i < NUM_POINTS * COLUMNS; i++) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    floats[i] = (float)(state >> 40) / 16777216.0f * 22.0f - 11.0f;
    halves[i] = vx_float_to_half(floats[i]);
  }
}

static void fill_boxes(void) {
  for (int i = 0; i < NUM_BOXES; i++) {
    const float *random = &floats[i % (NUM_POINTS - 1) * COLUMNS];
    const float box[VX_BOX_VALUES] = {9 * random[0], 9 * random[1], random[2], 4, 2, 1.5f, random[4]};
    memcpy(boxes[i], box, sizeof box);
    scores[i] = random[3] / 11;
    labels[i] = i % 3;
  }
}

void ways_init(void *stream) {
  session.stream = stream;
  fill_points();
  fill_boxes();
}

// ---- jobs -----------------------------------------------------------------------------------------------------------

// The weights depend on the number of layers, so that jobs bring different weights.
static struct vx_encoder encoder_of(const struct way *way) {
  enum { LAYER_WIDTH = 20 };
  struct vx_encoder encoder = {.num_layers = (way->tensors & VX_ENCODED_TENSORS) == 0 ? 0 : way->cap > 32 ? 3 : 1};
  for (int i = 0; i < encoder.num_layers; i++) {
    int32_t inputs = i == 0 ? COLUMNS + VX_PILLAR_EXTRA : 2 * LAYER_WIDTH;
    encoder.layers[i] = (struct vx_encoder_layer){floats + encoder.num_layers, floats + 100 * i, inputs, LAYER_WIDTH};
  }
  return encoder;
}

static struct vx_voxelize voxelize_of(const struct way *way) {
  struct vx_voxelize params = {.range_min = {-10, -10, -10},
                               .range_max = {10, 10, 10},
                               .voxel_size = {way->size, way->size, way->size},
                               .max_points_per_voxel = way->cap,
                               .max_voxels = 400,
                               .order = way->order,
                               .encoder = encoder_of(way)};
  if (way->with == CHOSEN) params.choice = (struct vx_choice){VX_VOXELS_NEAR, VX_POINTS_RANDOM, 1};
  if (way->filtered) params.block_filter = (struct vx_block_filter){true, 2, 3, 0.5f, 15.0f};
  return params;
}

static void set_transform(const struct way *way, struct vx_job *job) {
  static const float matrices[CLOUDS][VX_MATRIX_VALUES] = {{1, 0, 0, 1, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1},
                                                           {1, 0, 0, 2, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1},
                                                           {0, 1, 0, 3, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1}};
  static const struct vx_box cut = {{-1, -1, -1}, {2, 2, 2}};
  static struct vx_chain chains[2];
  struct vx_chain *chain = &chains[way->filtered];
  struct vx_transform *params = &chain->steps[0].params.transform;
  chain->count = 1;
  *params = (struct vx_transform){.cropped = true,
                                  .crop = {{-8, -8, -8}, {9, 9, 9}},
                                  .num_cuts = 1,
                                  .cuts = &cut,
                                  .num_matrices = way->filtered ? CLOUDS : 1,
                                  .matrices = matrices[0]};
  job->chain = chain;
}

// The maps of a head with two candidates per cell, from the same numbers as the points.
static void set_maps(const struct way *way, struct vx_job *job) {
  static const int32_t channels[][VX_MAX_INPUTS] = {{2, 2 * VX_BOX_VALUES, 4}, {2, 2, 1, 3, 2, 2}};
  const struct vx_nms nms = {0.1f, 50, 20, 1, 0, 0};
  if (way->op == VX_DECODE)
    job->params.decode = (struct vx_decode){.range_min = {-10, -10, -1},
                                            .range_max = {10, 10, 1},
                                            .num_sizes = 2,
                                            .num_rotations = 1,
                                            .sizes = {{1, 1, 1}, {2, 1, 1}},
                                            .dir_bins = 2,
                                            .score_threshold = 0.5f,
                                            .nms = nms};
  else
    job->params.center = (struct vx_decode_center){
        .voxel_size = {1, 1, 1}, .stride = 2, .score_threshold = 0.5f, .max_objects = 60, .num_radii = 1, .nms = nms};
  for (int i = 0; i < VX_MAX_INPUTS && channels[way->op != VX_DECODE][i] != 0; i++)
    job->inputs[i] = (struct vx_input){way->input,
                                       4,
                                       {way->num_clouds, SIDE, SIDE, channels[way->op != VX_DECODE][i]},
                                       way->input == VX_FLOAT16 ? (const void *)(halves + i) : floats + i};
}

static bool has_maps(const struct way *way) { return way->op == VX_DECODE || way->op == VX_DECODE_CENTER; }

// A layer from the columns to 16 channels, a block of two layers, and a layer that halves the grid along z.
static void set_backbone(struct vx_detector *detector) {
  const struct vx_sparse_layer first = {floats, floats, COLUMNS, 16, .kernel = {3, 3, 3}, .submanifold = true};
  struct vx_sparse_layer second = first;
  struct error error;
  struct vx_grid grid;
  second.inputs = 16;
  detector->backbone = (struct vx_sparse){.num_layers = 4, .layers = {first, second, second, second}};
  detector->backbone.layers[2].adds = true;
  detector->backbone.layers[3] =
      (struct vx_sparse_layer){floats, floats, 16, 16, .kernel = {3, 1, 1}, .stride = {2, 1, 1}, .padding = {1, 0, 0}};
  detector->max_rows = VX_MAX_SPARSE_ROWS;
  detector->backbone_number = 1;
  if (vx_grid_of(&detector->voxelize, 1, &grid, &error) != VX_OK) abort();
  for (int axis = 0; axis < 3; axis++) detector->backbone.shape[axis] = grid.cells[2 - axis];
  if (vx_sparse_plan_of(&detector->backbone, &detector->plan, &error) != VX_OK) abort();
}

// A detector with the maps of set_maps.
static void set_detector(const struct way *way, struct vx_job *job) {
  static float weights[(COLUMNS + 6) * WIDTH], biases[WIDTH];
  static struct vx_detector detector;
  struct vx_job maps = {.op = VX_DECODE};
  struct way plain = *way;
  plain.op = VX_DECODE;
  plain.filtered = false;
  set_maps(&plain, &maps);
  memcpy(weights, floats, sizeof weights);
  detector =
      (struct vx_detector){.engine = &copying_engine,
                           .voxelize = voxelize_of(&plain),
                           .input = "map",
                           .one_by_one = way->filtered,
                           .channels_first = way->filtered,
                           .maps = {{"classes", SIDE, SIDE, 2}, {"boxes", SIDE, SIDE, 14}, {"dirs", SIDE, SIDE, 4}},
                           .head = VX_DECODE,
                           .params.decode = maps.params.decode,
                           .items = (int64_t)SIDE * SIDE * 2,
                           .class_names = "a"};
  if (way->with == SPARSE)
    set_backbone(&detector);
  else
    detector.voxelize.encoder = (struct vx_encoder){1, {{weights, biases, COLUMNS + 6, WIDTH}}};
  job->params.detect = vx_detect_of(&detector);
  job->params.detect.session = &session;
}

// Some rows are outside of the grid; some share a cell.
static void set_scatter(const struct way *way, struct vx_job *job) {
  static int32_t coords[NUM_POINTS][4];
  for (int32_t row = 0; row < NUM_POINTS; row++) {
    const int32_t cell[4] = {row % (way->num_clouds + 1), row % 2, row / 7 % 31, row % 37};
    memcpy(coords[row], cell, sizeof cell);
  }
  job->params.scatter = (struct vx_scatter){.grid_size = {(int32_t)way->size, 30, 2}};
  job->inputs[VX_COORDS] = (struct vx_input){VX_INT32, 2, {NUM_POINTS, 4}, coords};
}

static void set_serialize(const struct way *way, struct vx_job *job) {
  static const struct vx_chain no_steps;
  if (!job->chain) job->chain = &no_steps;
  job->params.serialize = (struct vx_serialize){.size = {way->size, way->size, way->size},
                                                .num_orders = 2,
                                                .orders = {VX_CURVE_HILBERT, VX_CURVE_Z},
                                                .num_pools = 2,
                                                .strides = {2, 4}};
}

static void set_image(const struct way *way, struct vx_job *job) {
  job->params.image = (struct vx_range_image){.height = 16,
                                              .width = 64,
                                              .fov_up = 10,
                                              .fov_down = -30,
                                              .rows = way->filtered ? VX_ROWS_RING_DOWN : VX_ROWS_ELEVATION,
                                              .ring = VX_KITTI_RINGS,
                                              .empty = -1,
                                              .num_channels = 2,
                                              .channels = {VX_DISTANCE_CHANNEL, 3}};
}

// The NUM_BOXES boxes of VX_NMS are so many that the device selects before it ranks. They fill several chunks.
struct vx_job way_job(const struct way *way) {
  static struct vx_chain_report report;
  struct vx_job asked = {
      .op = way->op, .inputs = {vx_points_of(way->input, 0, COLUMNS, NULL)}, .tensors = way->tensors};
  if (way->op == VX_VOXELIZE) asked.params.voxelize = voxelize_of(way);
  if (way->op == VX_POINTS_OP || way->with == CHAINED) set_transform(way, &asked);
  if (has_maps(way)) set_maps(way, &asked);
  if (way->op == VX_SCATTER) set_scatter(way, &asked);
  if (way->op == VX_SERIALIZE) set_serialize(way, &asked);
  if (way->op == VX_RANGE_IMAGE_OP) set_image(way, &asked);
  if (vx_operations[way->op].needs_detector) set_detector(way, &asked);
  if (asked.chain) asked.report = &report;
  if (way->with == SAMPLED)
    *job_sampling(&asked) = (struct vx_sampling){.enabled = true, .stacked = true, .max_work = INT64_MAX};
  if (way->with == SECTIONED) asked.sections = (struct vx_sections){.count = WAY_SECTIONS, .points = section_points};
  asked.sample_counts = sample_counts;
  bool one = way->num_clouds == 1;
  if (way->op != VX_NMS) {
    const void *points = way->input == VX_FLOAT16 ? (const void *)halves : floats;
    return job_over(&asked, points, way->num_clouds, has_maps(way) ? map_counts : one ? one_count : counts);
  }
  asked.params.nms = (struct vx_nms){0.3f, way->filtered ? 5000 : VX_MAX_RANKED, 3000, 0, 0, 0};
  asked.inputs[VX_BOXES] = (struct vx_input){VX_FLOAT32, 2, {0, VX_BOX_VALUES}, NULL};
  asked.inputs[VX_SCORES] = (struct vx_input){VX_FLOAT32, 1, {NUM_BOXES}, scores};
  asked.inputs[VX_LABELS] = (struct vx_input){VX_INT32, 1, {NUM_BOXES}, labels};
  return job_over(&asked, boxes, way->num_clouds, one ? all_boxes : box_counts);
}
