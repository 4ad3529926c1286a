// See equal.h: detections and backbones. The networks of the random detectors are a stand-in.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels/backends.h"
#include "kernels/decoder.h"
#include "kernels/ops.h"
#include "tests/cuda/copying_network.h"
#include "tests/cuda/equal.h"
#include "tests/support/sparse_cases.h"

enum { MOST_LAYERS = 2, MOST_WIDTH = 70, MOST_SIDE = 24, FEW_POINTS = 4000 };

// ---- detectors ------------------------------------------------------------------------------------------------------

static float weights[MOST_LAYERS][128 * MOST_WIDTH], biases[MOST_LAYERS][MOST_WIDTH];
static struct vx_session session;

static float random_between(struct random *random, float low, float high) {
  return low + (high - low) * (float)random_below(random, 1 << 20) / (float)(1 << 20);
}

static struct vx_encoder random_encoder(struct random *random, int32_t columns) {
  struct vx_encoder encoder = {.num_layers = (int32_t)random_below(random, MOST_LAYERS) + 1};
  int32_t inputs = columns + 6;
  for (int32_t i = 0; i < encoder.num_layers; i++) {
    bool last = i == encoder.num_layers - 1;
    int32_t width = (int32_t)random_below(random, last ? MOST_WIDTH : 20) + 1;
    for (int32_t k = 0; k < inputs * width; k++) weights[i][k] = random_between(random, -0.3f, 0.3f);
    for (int32_t k = 0; k < width; k++) biases[i][k] = random_between(random, -0.2f, 0.3f);
    encoder.layers[i] = (struct vx_encoder_layer){weights[i], biases[i], inputs, width};
    inputs = 2 * width;
  }
  return encoder;
}

static void set_anchors(struct random *random, struct vx_detector *detector) {
  static const struct vx_decode decode = {.range_max = {16, 16, 2},
                                          .num_sizes = 2,
                                          .num_rotations = 1,
                                          .sizes = {{1, 2, 1}, {2, 1, 1}},
                                          .dir_bins = 2,
                                          .score_threshold = 0.4f};
  detector->head = VX_DECODE;
  detector->params.decode = decode;
  detector->params.decode.nms = (struct vx_nms){0.1f, (int32_t)random_below(random, 300) + 1, 50, 1, 0, 0};
}

static void set_centers(struct random *random, struct vx_detector *detector) {
  detector->head = VX_DECODE_CENTER;
  detector->params.center = (struct vx_decode_center){
      .voxel_size = {1, 1, 1}, .stride = 1, .score_threshold = 0.4f, .max_objects = 60, .num_radii = 1};
  detector->params.center.num_iou_powers = detector->params.center.num_score_powers = 1;
  detector->params.center.iou_powers[0] = detector->params.center.score_powers[0] = 0.5f;
  detector->params.center.nms = (struct vx_nms){0.1f, (int32_t)random_below(random, 60) + 1, 20, 1, 0, 0};
}

// Replaces the encoder by a backbone. Along z its grid has one plane more than the grid of the voxels.
static void set_backbone(struct random *random, int32_t columns, struct sparse_case *made,
                         struct vx_detector *detector) {
  static uint64_t number;
  struct vx_grid grid;
  struct error error;
  detector->voxelize.encoder.num_layers = 0;
  detector->voxelize.feature_dtype = VX_FLOAT32;
  if (vx_grid_of(&detector->voxelize, 1, &grid, &error) != VX_OK) abort();
  *made = (struct sparse_case){.random = random_bits(random),
                               .backbone.shape = {grid.cells[2] + 1, grid.cells[1], grid.cells[0]}};
  do sparse_case_layers(made, columns, 5);
  while (vx_sparse_plan_of(&made->backbone, &detector->plan, &error) != VX_OK);
  sparse_case_fill(made);
  detector->backbone = made->backbone;
  detector->max_rows = random_below(random, 8) ? VX_MAX_SPARSE_ROWS : 50;
  detector->backbone_number = ++number;
}

static struct vx_detector random_detector(struct random *random, int32_t columns) {
  static const char *const names[] = {"anchors", "boxes", "dirs", "more", "rot", "vel", "iou"};
  static const int64_t channels[2][VX_DETECTOR_MAPS] = {{4, 2 * VX_BOX_VALUES, 4}, {2, 2, 1, 3, 2, 2, 1}};
  bool centers = random_below(random, 3) == 0;
  int64_t height = random_below(random, MOST_SIDE) + 1, width = random_below(random, MOST_SIDE) + 1;
  struct vx_detector detector = {.engine = &copying_engine, .input = "map", .class_names = "a,b"};
  detector.voxelize =
      (struct vx_voxelize){.range_min = {0, 0, -2},
                           .range_max = {16, 16, 2},
                           .voxel_size = {random_between(random, 0.4f, 3), 1, random_below(random, 4) ? 4 : 2},
                           .max_points_per_voxel = (int32_t)random_below(random, 40) + 1,
                           .max_voxels = (int32_t)random_below(random, 400) + 1,
                           .encoder = random_encoder(random, columns)};
  detector.voxelize.feature_dtype = random_below(random, 4) ? VX_FLOAT32 : VX_FLOAT16;
  detector.one_by_one = random_below(random, 3) == 0;
  detector.channels_first = random_below(random, 2) == 0;
  if (centers)
    set_centers(random, &detector);
  else
    set_anchors(random, &detector);
  for (int i = 0; i < VX_DETECTOR_MAPS && channels[centers][i]; i++)
    detector.maps[i] = (struct vx_detector_map){names[i], height, width, channels[centers][i],
                                                random_below(random, 3) ? VX_FLOAT32 : VX_FLOAT16};
  detector.items = height * width * 2;
  return detector;
}

// ---- jobs -----------------------------------------------------------------------------------------------------------

static void fill_detected(struct random *random, struct scan *scan) {
  *scan = (struct scan){.columns = 4 + (int32_t)random_below(random, 2), .name = "detect"};
  scan->num_clouds = random_below(random, 2) ? 1 : (int32_t)random_below(random, 4) + 2;
  for (int32_t cloud = 0; cloud < scan->num_clouds; cloud++) {
    scan->counts[cloud] = random_below(random, 6) ? (int32_t)random_below(random, FEW_POINTS) : 0;
    scan->num_points += scan->counts[cloud];
  }
  random_sections(random, scan);
  int64_t values = scan->num_points * scan->columns;
  float *points = malloc((size_t)(values + 1) * sizeof *points);
  for (int64_t i = 0; points != NULL && i < values; i++)
    points[i] = i % scan->columns == 2 ? random_between(random, -2.5f, 2.5f) : random_between(random, -1, 17);
  if (points != NULL && values > 0) points[0] = NAN;
  scan->points = points;
  scan->unseen = random_below(random, 5) == 0;
}

// ---- where they run -------------------------------------------------------------------------------------------------

// With one_by_one the network reads each cloud of a batch in place, so each must begin at a multiple of 16 bytes.
static void check_places(void) {
  static const struct {
    float side;  // of the grid, in cells
    int32_t width;
    enum vx_dtype features, map;
    int64_t channels;  // of a map of 2 x 2 cells
    int32_t clouds;
    bool opened, one_by_one, runs;
  } rows[] = {
      {3, 5, VX_FLOAT32, VX_FLOAT32, 3, 1, true, true, true},
      {3, 5, VX_FLOAT32, VX_FLOAT32, 3, 1, false, true, false},
      {3, 5, VX_FLOAT32, VX_FLOAT32, 3, 2, true, false, true},
      {3, 5, VX_FLOAT32, VX_FLOAT32, 3, 2, true, true, false},  // 180 bytes of features
      {4, 5, VX_FLOAT32, VX_FLOAT32, 3, 2, true, true, true},   // 320 of features, 48 of maps
      {4, 5, VX_FLOAT16, VX_FLOAT16, 2, 2, true, true, true},   // 160 and 16
      {4, 5, VX_FLOAT16, VX_FLOAT16, 3, 2, true, true, false},  // 160 and 24
      {2, 1, VX_FLOAT16, VX_FLOAT32, 4, 2, true, true, false},  // 8
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct vx_detector detector = {.engine = &copying_engine, .head = VX_DECODE, .one_by_one = rows[i].one_by_one};
    detector.voxelize = (struct vx_voxelize){.range_max = {rows[i].side, rows[i].side, 1},
                                             .voxel_size = {1, 1, 1},
                                             .encoder = {1, {{weights[0], biases[0], 10, rows[i].width}}},
                                             .feature_dtype = rows[i].features};
    detector.maps[0] = (struct vx_detector_map){"anchors", 2, 2, rows[i].channels, rows[i].map};
    struct vx_job job = {.op = VX_DETECT, .params.detect = vx_detect_of(&detector), .num_clouds = rows[i].clouds};
    job.params.detect.session = rows[i].opened ? &session : NULL;
    if (vx_cuda_backend.runs(&job) == rows[i].runs) continue;
    printf("detections of row %zu %s on the device\n", i, rows[i].runs ? "do not run" : "run");
    exit(1);
  }
}

// A stopped job ends before the layers of its backbone, and does not affect the next job.
static void compare_stopped(struct side sides[2], const struct vx_job *asked, const struct scan *scan) {
  struct error error = {.text = ""};
  atomic_store(&sides[1].stop, true);
  enum vx_status status = side_run(&sides[1], asked, scan, &error);
  atomic_store(&sides[1].stop, false);
  if (status != VX_STOPPED || strcmp(error.text, "ended before the backbone ran") != 0) {
    printf("a backbone was not stopped: %s\n", error.text);
    exit(1);
  }
  compare(sides, asked, scan, "backbone after a stopped one");
}

// If the map is not requested, the backbone does not make it. This map would not fit into what the lane has reserved.
static void compare_without_map(struct side sides[2]) {
  static float points[] = {1, 1, 0, 0.5f, 799, 2, 1, -0.25f};
  static struct scan scan = {.columns = 4, .name = "no map", .num_clouds = 1, .num_points = 2, .counts = {2}};
  struct sparse_case made = {.random = 1, .backbone = {.shape = {2, 800, 800}, .num_layers = 1}};
  struct error error;
  made.backbone.layers[0] =
      (struct vx_sparse_layer){.inputs = 4, .width = 16, .kernel = {3, 3, 3}, .submanifold = true};
  sparse_case_fill(&made);
  struct vx_detector detector = {.engine = &copying_engine, .input = "map", .class_names = "a", .head = VX_DECODE};
  detector.voxelize = (struct vx_voxelize){
      .range_max = {800, 800, 2}, .voxel_size = {1, 1, 2}, .max_points_per_voxel = 1, .max_voxels = 2};
  detector.backbone = made.backbone;
  detector.max_rows = VX_MAX_SPARSE_ROWS;
  detector.backbone_number = UINT64_MAX;
  scan.points = points;
  struct vx_job asked = {.op = VX_BACKBONE, .tensors = VX_SPARSE_TENSORS, .num_clouds = 1};
  asked.inputs[VX_POINTS] = vx_points_of(VX_FLOAT32, 0, scan.columns, NULL);
  asked.params.detect = vx_detect_of(&detector);
  if (vx_sparse_plan_of(&detector.backbone, &detector.plan, &error) != VX_OK || !vx_cuda_backend.runs(&asked)) abort();
  asked.params.detect = vx_detect_of(&detector);
  compare(sides, &asked, &scan, "backbone without its map");
  compare_stopped(sides, &asked, &scan);
  free_sparse_case(&made);
}

void test_detect(struct side sides[2], uint64_t seed, int jobs) {
  static const vx_tensor_set all[] = {VX_DECODE_TENSORS,
                                      VX_DETECT_TENSORS | VX_TRACK_TENSORS,
                                      VX_TRACKED_TENSORS | VX_TRACK_TENSORS,
                                      BIT(VX_BEV_FEATURES),
                                      0,
                                      BIT(VX_BOX_COUNTS) | BIT(VX_HEAD_BOX_PREDS)};
  struct random random = {seed ^ 0xDE7EC7};
  struct vx_device_stream stream;
  vx_cuda_backend.device_stream(sides[1].lane, &stream);
  session = (struct vx_session){.stream = stream.handle};
  check_places();
  for (int i = 0; i < jobs; i++) {
    static struct scan scan;
    fill_detected(&random, &scan);
    struct vx_detector detector = random_detector(&random, scan.columns);
    struct vx_job asked = {.op = VX_DETECT,
                           .inputs = {vx_points_of(VX_FLOAT32, 0, scan.columns, NULL)},
                           .tensors = all[random_below(&random, sizeof all / sizeof *all)]};
    struct sparse_case backbone = {0};
    if (random_below(&random, 2)) set_backbone(&random, scan.columns, &backbone, &detector);
    bool sparse = vx_has_backbone(&detector);
    if (sparse && random_below(&random, 2)) asked.op = VX_BACKBONE;
    asked.params.detect = vx_detect_of(&detector);
    asked.params.detect.session = &session;
    random_choice(&random, &asked.params.detect.choice);
    vx_tensor_set made = BIT(VX_BEV_FEATURES) | (sparse ? VX_SPARSE_TENSORS : 0);
    asked.tensors &=
        asked.op == VX_BACKBONE ? made : made | VX_DECODE_TENSORS | VX_TRACK_TENSORS | vx_map_tensors(&detector, ~0u);
    asked.num_clouds = scan.num_clouds;
    struct vx_chain chain;
    if (random_one_in(&random, 2)) {
      random_chain(&random, &scan, &chain);
      asked.chain = &chain;
      asked.tensors |= random_bits(&random) & VX_CHAIN_TENSORS;
    }
    if (scan.points != NULL) random_deskew(&random, &scan, &asked);
    // The second run finds the backbone's weights on the lane.
    for (int again = 0; again <= sparse; again++)
      if (scan.points != NULL && vx_cuda_backend.runs(&asked)) compare(sides, &asked, &scan, "detection");
    free(scan.points);
    free_sparse_case(&backbone);
  }
  compare_without_map(sides);
  if (session.runs == 0) {
    printf("no detection ran on the device\n");
    exit(1);
  }
}
