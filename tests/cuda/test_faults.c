// What becomes of a job when one of its CUDA calls fails: each call site in turn, with each class of error.
//
//   cuda-faults
//
// The run must end with the class of that error and a text that names the call, and the next job on the same lane must
// give the same bytes as the CPU. Built with the flavour whose calls fail on request (tests/support/standin/inject.h);
// exit code 77 without a GPU.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "kernels/backends.h"
#include "kernels/decoder.h"
#include "kernels/half.h"
#include "tests/cuda/copying_network.h"
#include "tests/support/jobs.h"
#include "tests/support/standin/inject.h"

#define BIT VX_TENSOR_BIT
#define ALL VX_VOXEL_TENSORS
#define ENCODED (BIT(VX_ENCODED_FEATURES) | BIT(VX_BEV_FEATURES))
#define SHOWN (VX_DETECT_TENSORS & ~VX_CENTER_MAPS)
#define UNCAPPED (ALL & ~(BIT(VX_VOXELS) | BIT(VX_PILLAR_FEATURES) | BIT(VX_VOXEL_POINT_MASK)))

// SIDE: of maps, in cells; WIDTH: of an encoder
enum { NUM_POINTS = 6000, COLUMNS = 4, CLOUDS = 3, NUM_BOXES = 18000, SIDE = 10, WIDTH = 8 };

// One for each way through the backend.
static const struct way {
  const char *name;
  int32_t cap, num_clouds;
  enum vx_order order;
  enum vx_dtype input;
  bool filtered;  // a transform: with a matrix for each cloud; boxes: only some of them get a rank
  vx_tensor_set tensors;
  float size;  // of a voxel; of a scatter: the grid's length along x
  enum vx_op op;
  bool sampled;
} ways[] = {
    {"one cloud", 5, 1, VX_ORDER_FIRST, VX_FLOAT32, false, ALL, 2, VX_VOXELIZE, false},
    {"counts only", 5, 1, VX_ORDER_FIRST, VX_FLOAT32, false, 0, 2, VX_VOXELIZE, false},
    {"large cap", 100, 1, VX_ORDER_FIRST, VX_FLOAT32, false, ALL, 2, VX_VOXELIZE, false},
    {"no cap", 0, 1, VX_ORDER_FIRST, VX_FLOAT32, false, UNCAPPED, 2, VX_VOXELIZE, false},
    {"batch", 5, CLOUDS, VX_ORDER_FIRST, VX_FLOAT32, false, ALL, 2, VX_VOXELIZE, false},
    {"order=key", 5, CLOUDS, VX_ORDER_KEY, VX_FLOAT32, false, ALL, 2, VX_VOXELIZE, false},
    {"order=key, hashed", 5, CLOUDS, VX_ORDER_KEY, VX_FLOAT32, false, ALL, 0.02f, VX_VOXELIZE, false},
    {"order=key, marked", 5, CLOUDS, VX_ORDER_KEY, VX_FLOAT32, false, ALL, 0.1f, VX_VOXELIZE, false},
    {"block filter", 5, CLOUDS, VX_ORDER_KEY, VX_FLOAT32, true, ALL, 2, VX_VOXELIZE, false},
    {"float16", 5, CLOUDS, VX_ORDER_FIRST, VX_FLOAT16, false, ALL, 2, VX_VOXELIZE, false},
    {"one voxel", 100, 1, VX_ORDER_FIRST, VX_FLOAT32, false, ALL, 20, VX_VOXELIZE, false},
    {"one voxel, no cap", 0, 1, VX_ORDER_FIRST, VX_FLOAT32, false, UNCAPPED, 20, VX_VOXELIZE, false},
    {"samples", 5, 1, VX_ORDER_FIRST, VX_FLOAT32, false, VX_SAMPLED_TENSORS, 2, VX_FPS, true},
    {"samples of a batch", 5, CLOUDS, VX_ORDER_FIRST, VX_FLOAT16, false, VX_SAMPLED_TENSORS, 2, VX_FPS, true},
    {"samples counted", 5, 1, VX_ORDER_FIRST, VX_FLOAT32, false, 0, 2, VX_FPS, true},
    {"samples of voxels", 5, CLOUDS, VX_ORDER_FIRST, VX_FLOAT32, false, ALL | VX_SAMPLED_TENSORS, 2, VX_VOXELIZE, true},
    {"transform", 0, 1, VX_ORDER_FIRST, VX_FLOAT32, false, VX_TRANSFORM_TENSORS, 0, VX_TRANSFORM, false},
    {"transform counted", 0, 1, VX_ORDER_FIRST, VX_FLOAT32, false, 0, 0, VX_TRANSFORM, false},
    {"transform of a batch", 0, CLOUDS, VX_ORDER_FIRST, VX_FLOAT16, true, VX_TRANSFORM_TENSORS, 0, VX_TRANSFORM, false},
    {"maps", 5, 1, VX_ORDER_FIRST, VX_FLOAT32, false, ALL | VX_DENSE_TENSORS, 2, VX_VOXELIZE, false},
    {"maps of a batch", 0, CLOUDS, VX_ORDER_KEY, VX_FLOAT16, true, VX_DENSE_TENSORS, 0.5f, VX_VOXELIZE, false},
    {"encoder", 5, 1, VX_ORDER_FIRST, VX_FLOAT32, false, ENCODED, 2, VX_VOXELIZE, false},
    {"encoder of layers", 40, CLOUDS, VX_ORDER_KEY, VX_FLOAT16, false, ENCODED, 2, VX_VOXELIZE, false},
    {"scatter", 0, 1, VX_ORDER_FIRST, VX_FLOAT32, false, VX_SCATTER_TENSORS, 40, VX_SCATTER, false},
    {"scatter counted", 0, 1, VX_ORDER_FIRST, VX_FLOAT32, false, 0, 40, VX_SCATTER, false},
    {"scatter of a batch", 0, CLOUDS, VX_ORDER_FIRST, VX_FLOAT16, false, VX_SCATTER_TENSORS, 30, VX_SCATTER, false},
    {"scatter that waits", 0, 1, VX_ORDER_FIRST, VX_FLOAT16, false, VX_SCATTER_TENSORS, 600000, VX_SCATTER, false},
    {"boxes", 0, 1, VX_ORDER_FIRST, VX_FLOAT32, false, VX_NMS_TENSORS, 0, VX_NMS, false},
    {"boxes counted", 0, 1, VX_ORDER_FIRST, VX_FLOAT32, true, 0, 0, VX_NMS, false},
    {"boxes of a batch", 0, CLOUDS, VX_ORDER_FIRST, VX_FLOAT32, true, VX_NMS_TENSORS, 0, VX_NMS, false},
    {"decode", 0, 1, VX_ORDER_FIRST, VX_FLOAT32, false, VX_DECODE_TENSORS, 0, VX_DECODE, false},
    {"decode counted", 0, CLOUDS, VX_ORDER_FIRST, VX_FLOAT32, false, 0, 0, VX_DECODE, false},
    {"decode a batch", 0, CLOUDS, VX_ORDER_FIRST, VX_FLOAT16, false, VX_DECODE_TENSORS, 0, VX_DECODE, false},
    {"decode centres", 0, CLOUDS, VX_ORDER_FIRST, VX_FLOAT32, false, VX_DECODE_TENSORS, 0, VX_DECODE_CENTER, false},
    {"detection", 5, 1, VX_ORDER_FIRST, VX_FLOAT32, false, VX_DECODE_TENSORS, 2, VX_DETECT, false},
    {"detection counted", 5, CLOUDS, VX_ORDER_FIRST, VX_FLOAT32, false, 0, 2, VX_DETECT, false},
    {"detection shown", 5, CLOUDS, VX_ORDER_FIRST, VX_FLOAT32, true, SHOWN, 2, VX_DETECT, false},
    {"samples of few", 0, 1, VX_ORDER_KEY, VX_FLOAT32, true, VX_SAMPLED_TENSORS, 0.5f, VX_VOXELIZE, true},
};
// Has more cells than a new lane has memory for.
static const struct way growing = {"growth", 5, 1, VX_ORDER_KEY, VX_FLOAT32, false, ALL, 0.14f, VX_VOXELIZE, false};

static struct vx_seat seat;
static uint16_t halves[NUM_POINTS * COLUMNS];
static float floats[NUM_POINTS * COLUMNS];
static float boxes[NUM_BOXES][VX_BOX_VALUES], scores[NUM_BOXES];
static int32_t labels[NUM_BOXES];
static int32_t counts[CLOUDS] = {2000, 0, 4000}, row_counts[CLOUDS];
static const int32_t box_counts[CLOUDS] = {NUM_BOXES / 3, 0, NUM_BOXES - NUM_BOXES / 3};
static const int32_t all_boxes[1] = {NUM_BOXES};
static const int32_t sample_counts[CLOUDS] = {50, 0, 70};
static const int32_t map_counts[CLOUDS] = {SIDE * SIDE * 2, SIDE *SIDE * 2, SIDE *SIDE * 2};
static const int32_t one_count[1] = {NUM_POINTS};

struct block {
  unsigned char *memory;  // of the last output, for the caller to free
  struct vx_layout layout;
};

static enum vx_status give_output(void *cls, const struct vx_layout *layout, void **memory, struct vx_error *error) {
  struct block *block = cls;
  block->layout = *layout;
  block->memory = aligned_alloc(VX_TENSOR_ALIGNMENT, (layout->bytes / VX_TENSOR_ALIGNMENT + 1) * VX_TENSOR_ALIGNMENT);
  *memory = block->memory;
  if (*memory != NULL) {
    memset(block->memory, 0, layout->bytes);  // not every backend writes the gaps
    return VX_OK;
  }
  snprintf(error->text, sizeof error->text, "no memory for the test");
  return VX_OUT_OF_MEMORY;
}

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

static const struct vx_caller caller = {.output = give_output};

// Layers of 20 channels: one, or three if the cap is large. Their weights differ, so each brings its own.
static struct vx_encoder encoder_of(const struct way *way) {
  enum { WIDTH = 20 };
  struct vx_encoder encoder = {.num_layers = (way->tensors & VX_ENCODED_TENSORS) == 0 ? 0 : way->cap > 32 ? 3 : 1};
  for (int i = 0; i < encoder.num_layers; i++) {
    int32_t inputs = i == 0 ? COLUMNS + VX_PILLAR_EXTRA : 2 * WIDTH;
    encoder.layers[i] = (struct vx_encoder_layer){floats + encoder.num_layers, floats + 100 * i, inputs, WIDTH};
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
  if (way->filtered) params.block_filter = (struct vx_block_filter){true, 2, 3, 0.5f, 15.0f};
  return params;
}

// Filtered: each cloud has a matrix of its own.
static void set_transform(const struct way *way, struct vx_job *job) {
  static const float matrices[CLOUDS][VX_MATRIX_VALUES] = {{1, 0, 0, 1, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1},
                                                           {1, 0, 0, 2, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1},
                                                           {0, 1, 0, 3, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1}};
  static const struct vx_box cut = {{-1, -1, -1}, {2, 2, 2}};
  job->params.transform = (struct vx_transform){true, {{-8, -8, -8}, {9, 9, 9}}, 1, &cut};
  job->inputs[VX_MATRIX] = (struct vx_input){VX_FLOAT32, 3, {way->filtered ? CLOUDS : 1, 4, 4}, matrices};
}

// The maps of a head with two candidates in each cell, from the same numbers as the points.
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

// A detector whose maps are as those above. Filtered: with the channels in front, and one cloud at a time.
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
  detector.voxelize.encoder = (struct vx_encoder){1, {{weights, biases, COLUMNS + 6, WIDTH}}};
  job->params.detect = vx_detect_of(&detector);
  job->params.detect.seat = &seat;
}

// Some rows are outside, some have a cell that another has.
static void set_scatter(const struct way *way, struct vx_job *job) {
  static int32_t coords[NUM_POINTS][4];
  for (int32_t row = 0; row < NUM_POINTS; row++) {
    const int32_t cell[4] = {row % (way->num_clouds + 1), row % 2, row / 7 % 31, row % 37};
    memcpy(coords[row], cell, sizeof cell);
  }
  job->params.scatter = (struct vx_scatter){.grid_size = {(int32_t)way->size, 30, 2}};
  job->inputs[VX_COORDS] = (struct vx_input){VX_INT32, 2, {NUM_POINTS, 4}, coords};
}

// The job that the way asks for. Boxes are more than are ranked without a selection, and than one chunk has.
static struct vx_job job_of(const struct way *way) {
  struct vx_job asked = {
      .op = way->op, .inputs = {vx_points_of(way->input, 0, COLUMNS, NULL)}, .tensors = way->tensors};
  if (way->op == VX_VOXELIZE) asked.params.voxelize = voxelize_of(way);
  if (way->op == VX_TRANSFORM) set_transform(way, &asked);
  if (has_maps(way)) set_maps(way, &asked);
  if (way->op == VX_SCATTER) set_scatter(way, &asked);
  if (way->op == VX_DETECT) set_detector(way, &asked);
  if (way->sampled)
    *job_sampling(&asked) = (struct vx_sampling){.enabled = true, .stacked = true, .max_work = INT64_MAX};
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

static enum vx_status run(const struct vx_backend *backend, struct vx_lane *lane, const struct way *way,
                          struct block *block, struct vx_counts *out, struct vx_error *error) {
  struct vx_job job = job_of(way);
  job.sample_counts = sample_counts;
  job.caller = &caller;
  job.cls = block;
  job.row_counts = row_counts;
  *block = (struct block){.memory = NULL};
  enum vx_status status = backend->run(lane, &job, error);
  *out = job.counts;
  return status;
}

static int faults, failures;

static void fail(const struct way *way, long long call, int class, const char *what) {
  printf("%s, call %lld, class %d: %s\n", way->name, call, class, what);
  failures++;
}

static bool is_right(const struct block *block, const struct vx_counts *own, const struct block *right,
                     const struct vx_counts *sum) {
  return memcmp(own, sum, sizeof *own) == 0 && block->layout.bytes == right->layout.bytes &&
         (right->memory == NULL || memcmp(block->memory, right->memory, right->layout.bytes) == 0);
}

// The lane is as good as new: the same bytes and counts as the CPU's.
static bool agrees(struct vx_lane *lane, const struct way *way, const struct block *right,
                   const struct vx_counts *sum) {
  struct vx_error error = {""};
  struct vx_counts own;
  struct block block;
  bool good = run(&vx_cuda_backend, lane, way, &block, &own, &error) == VX_OK && is_right(&block, &own, right, sum);
  free(block.memory);
  return good;
}

static void go_through(struct vx_lane *lane, const struct way *way, const struct block *right,
                       const struct vx_counts *sum) {
  long long calls = 0;
  for (int i = 0; i < 2; i++) {  // the second time nothing has to grow
    inject_set(VX_OK, 0, INJECT_ONCE);
    if (!agrees(lane, way, right, sum)) fail(way, 0, 0, "differs from the CPU without any fault");
    calls = inject_calls();
  }
  for (int class = VX_REFUSED; class <= VX_DEVICE_LOST; class ++) {
    for (long long call = 1; call <= calls; call++, faults++) {
      struct vx_error error = {""};
      struct vx_counts own;
      struct block block;
      inject_set((enum vx_status) class, call, INJECT_ONCE);
      enum vx_status status = run(&vx_cuda_backend, lane, way, &block, &own, &error);
      // How often a run asks a busy GPU for its state differs. And it may get over a lack of memory that has passed.
      bool passed = status == VX_OK && (inject_calls() < call || class == VX_OUT_OF_MEMORY);
      if ((int)status != class && !passed) fail(way, call, class, error.text);
      if (passed && !is_right(&block, &own, right, sum)) fail(way, call, class, "the job differs from the CPU");
      free(block.memory);
      if (status != VX_OK && strlen(error.text) < 8) fail(way, call, class, "the text does not name the call");
      inject_set(VX_OK, 0, INJECT_ONCE);
      if (!agrees(lane, way, right, sum)) fail(way, call, class, "the next job differs from the CPU");
    }
  }
}

// The lane is new each time, so the job replaces a block by a larger one, and gives the old one back. It may get over a
// lack of memory that has passed.
static void go_through_growth(struct vx_device *device, const struct block *right, const struct vx_counts *sum) {
  const struct way *way = &growing;
  for (int class = VX_REFUSED; class <= VX_DEVICE_LOST; class ++) {
    bool reached = true;
    for (long long call = 1; reached; call++, faults++) {
      struct vx_error error = {""};
      struct vx_counts own;
      struct block block;
      struct vx_lane *lane;
      inject_set(VX_OK, 0, INJECT_ONCE);
      if (vx_cuda_backend.lane_open(device, VX_LANE_QUICK, &lane, &error) != VX_OK) {
        fail(way, call, class, error.text);
        return;
      }
      inject_set((enum vx_status) class, call, INJECT_ONCE);
      enum vx_status status = run(&vx_cuda_backend, lane, way, &block, &own, &error);
      reached = inject_calls() >= call;
      free(block.memory);
      bool passed = status == VX_OK && (!reached || class == VX_OUT_OF_MEMORY);
      if ((int)status != class && !passed) fail(way, call, class, error.text);
      inject_set(VX_OK, 0, INJECT_ONCE);
      if (!agrees(lane, way, right, sum)) fail(way, call, class, "the job after growth differs from the CPU");
      vx_cuda_backend.lane_close(lane);
    }
  }
}

// Opening fails as it should at each of its calls, and works after that.
static void go_through_opening(struct vx_device *device) {
  struct vx_error error = {""};
  struct vx_lane *lane = NULL;
  for (long long call = 1;; call++, faults++) {
    inject_set(VX_OUT_OF_MEMORY, call, INJECT_FROM_THERE);
    enum vx_status status = vx_cuda_backend.lane_open(device, VX_LANE_QUICK, &lane, &error);
    bool reached = inject_calls() >= call;
    if (status == VX_OK) vx_cuda_backend.lane_close(lane);
    if (!reached) break;
    if (status != VX_OUT_OF_MEMORY) fail(&ways[0], call, VX_OUT_OF_MEMORY, "lane_open does not tell");
  }
}

// What could not be pinned is not pinned in part: the next try works, and unpinning.
static void go_through_pinning(struct vx_device *device) {
  enum { BYTES = 1 << 16 };
  struct vx_error error = {""};
  void *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  for (int class = VX_REFUSED; memory != MAP_FAILED && class <= VX_DEVICE_LOST; class ++) {
    bool reached = true;
    for (long long call = 1; reached; call++, faults++) {
      inject_set((enum vx_status) class, call, INJECT_ONCE);
      enum vx_status status = vx_cuda_backend.host_pin(device, memory, BYTES, &error);
      reached = inject_calls() >= call;
      inject_set(VX_OK, 0, INJECT_ONCE);
      if ((int)status != (reached ? class : VX_OK)) fail(&ways[0], call, class, "host_pin does not tell");
      if (status == VX_OK && !vx_cuda_backend.host_unpin(device, memory)) fail(&ways[0], call, class, "host_unpin");
      if (vx_cuda_backend.host_pin(device, memory, BYTES, &error) != VX_OK) fail(&ways[0], call, class, error.text);
      if (!vx_cuda_backend.host_unpin(device, memory)) fail(&ways[0], call, class, "host_unpin");
    }
  }
  if (memory == MAP_FAILED || munmap(memory, BYTES) != 0) fail(&ways[0], 0, 0, "no memory for the test");
}

int main(void) {
  struct vx_error error = {""};
  struct vx_device *cpu, *gpu;
  struct vx_lane *cpu_lane, *gpu_lane;
  if (vx_cuda_backend.open(0, &gpu, &error) != VX_OK) {
    printf("skipped: %s\n", error.text);
    return 77;
  }
  if (vx_cpu_backend.open(0, &cpu, &error) != VX_OK ||
      vx_cpu_backend.lane_open(cpu, VX_LANE_QUICK, &cpu_lane, &error) != VX_OK ||
      vx_cuda_backend.lane_open(gpu, VX_LANE_QUICK, &gpu_lane, &error) != VX_OK) {
    printf("%s\n", error.text);
    return 1;
  }
  struct vx_place place;
  vx_cuda_backend.place(gpu_lane, &place);
  seat.stream = place.stream;
  fill_points();
  fill_boxes();
  go_through_opening(gpu);
  go_through_pinning(gpu);
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
    struct block right;
    struct vx_counts sum;
    if (run(&vx_cpu_backend, cpu_lane, &ways[i], &right, &sum, &error) != VX_OK) fail(&ways[i], 0, 0, error.text);
    go_through(gpu_lane, &ways[i], &right, &sum);
    free(right.memory);
  }
  struct block right;
  struct vx_counts sum;
  if (run(&vx_cpu_backend, cpu_lane, &growing, &right, &sum, &error) != VX_OK) fail(&growing, 0, 0, error.text);
  go_through_growth(gpu, &right, &sum);
  free(right.memory);
  vx_cuda_backend.lane_close(gpu_lane);
  vx_cuda_backend.close(gpu);
  vx_cpu_backend.lane_close(cpu_lane);
  vx_cpu_backend.close(cpu);
  printf("cuda-faults: %d faults, %d failures\n", faults, failures);
  return failures != 0;
}
