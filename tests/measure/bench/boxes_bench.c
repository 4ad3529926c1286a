// boxes-bench: how long the decoding of a KITTI head's maps takes on the CPU: 248 x 216 cells with 6 anchors each, of
// which a number reaches the threshold. They lie around a number of objects, as a network's do.
//
// One thread. Nothing here asserts a time.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/anchors.h"
#include "kernels/backends.h"
#include "tests/measure/bench/timing.h"

enum { HEIGHT = 248, WIDTH = 216, ANCHORS = 6, CLASSES = 3, BINS = 2, REPEAT = 51, WARM_UP = 5 };
enum { MEMORY = 1 << 20 };  // bytes of an answer
enum { CELLS = HEIGHT * WIDTH, ALL = CELLS * ANCHORS };

struct maps {
  float cls[ALL][CLASSES], box[ALL][VX_BOX_VALUES], dir[ALL][BINS];
};

// As the preset kitti_pointpillar has it.
static const struct vx_decode head = {.range_min = {0, -39.68f, -3},
                                      .range_max = {69.12f, 39.68f, 1},
                                      .num_sizes = 3,
                                      .num_rotations = 2,
                                      .sizes = {{3.9f, 1.6f, 1.56f}, {0.8f, 0.6f, 1.73f}, {1.76f, 0.6f, 1.73f}},
                                      .bottoms = {-1.78f, -0.6f, -0.6f},
                                      .rotations = {0, 1.57f},
                                      .dir_offset = 0.78539f,
                                      .dir_bins = BINS,
                                      .score_threshold = 0.1f,
                                      .nms = {0.01f, 4096, 500, 1, 0, 0}};

static uint64_t state = 1;
static float random_in(float low, float high) {
  state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return low + (high - low) * ((float)(state >> 40) / 16777216.0f);
}

// Makes `count` anchors of cars reach the threshold, and moves them to within 0.3 m of one of `objects` places.
static void fill(struct maps *maps, int count, int objects) {
  memset(maps, 0, sizeof *maps);
  for (int i = 0; i < ALL * CLASSES; i++) maps->cls[i / CLASSES][i % CLASSES] = random_in(-9, -4);
  for (int i = 0; i < count; i++) {
    int object = i % objects, cell = (int)(((int64_t)i * CELLS) / count), anchor = cell * ANCHORS;
    int row = object / 10, column = object % 10;
    float x = 4 + 6 * (float)column, y = -36 + 5 * (float)row;
    float *moves = maps->box[anchor], diagonal = sqrtf(3.9f * 3.9f + 1.6f * 1.6f);
    maps->cls[anchor][0] = random_in(-2, 4);
    moves[0] = (x + random_in(-0.3f, 0.3f) - vx_anchor_place(&head, 0, cell % WIDTH, WIDTH)) / diagonal;
    moves[1] = (y + random_in(-0.3f, 0.3f) - vx_anchor_place(&head, 1, cell / WIDTH, HEIGHT)) / diagonal;
    moves[3] = random_in(-0.1f, 0.1f);
    moves[6] = random_in(-0.2f, 0.2f);
  }
}

static void *output;
static enum vx_status give_output(void *cls, const struct vx_layout *layout, void **block, struct vx_error *error) {
  (void)cls, (void)error;
  if (layout->bytes > MEMORY) abort();
  *block = output;
  return VX_OK;
}

static bool run(const struct vx_backend *backend, struct vx_lane *lane, const struct maps *maps, struct vx_job *job,
                struct vx_error *error) {
  static const int32_t points[] = {ALL};
  static int32_t kept[1];
  const int64_t logits = (int64_t)ANCHORS * CLASSES, values = (int64_t)ANCHORS * VX_BOX_VALUES,
                bins = (int64_t)ANCHORS * BINS;
  *job = (struct vx_job){.op = VX_DECODE,
                         .params.decode = head,
                         .inputs = {{VX_FLOAT32, 4, {1, HEIGHT, WIDTH, logits}, maps->cls},
                                    {VX_FLOAT32, 4, {1, HEIGHT, WIDTH, values}, maps->box},
                                    {VX_FLOAT32, 4, {1, HEIGHT, WIDTH, bins}, maps->dir}},
                         .tensors = VX_DECODE_TENSORS,
                         .num_clouds = 1,
                         .point_counts = points,
                         .row_counts = kept,
                         .caller = &(const struct vx_caller){.output = give_output}};
  return backend->run(lane, job, error) == VX_OK;
}

static bool measure(const struct vx_backend *backend, struct vx_lane *lane, struct maps *maps, int count, int objects) {
  double decode[REPEAT], nms[REPEAT];
  struct vx_job job;
  struct vx_error error;
  fill(maps, count, objects);
  for (int i = -WARM_UP; i < REPEAT; i++) {
    if (!run(backend, lane, maps, &job, &error)) {
      fprintf(stderr, "boxes-bench: %s\n", error.text);
      return false;
    }
    if (i < 0) continue;
    decode[i] = (double)job.stage_ns[VX_STAGE_DECODE] / 1e6;
    nms[i] = (double)job.stage_ns[VX_STAGE_NMS] / 1e6;
  }
  printf("| %d | %d | %d | %d | %.2f | %.2f |\n", ALL, count, objects, (int)job.counts.kept,
         timing_median(decode, REPEAT), timing_median(nms, REPEAT));
  return true;
}

int main(void) {
  static const int cases[][2] = {{1000, 40}, {1000, 1}, {1000, 1000}, {4096, 100}, {4096, 1}};
  const struct vx_backend *backend = vx_backend_find("cpu");
  struct vx_device *device;
  struct vx_lane *lane;
  struct vx_error error;
  static struct maps maps;
  static _Alignas(64) unsigned char memory[MEMORY];
  output = memory;
  if (!backend || backend->open(0, &device, &error) != VX_OK) return 1;
  if (backend->lane_open(device, VX_LANE_QUICK, &lane, &error) != VX_OK) return 1;
  printf("| anchors | boxes before NMS | objects | kept | maps to boxes ms | NMS ms |\n| --- | --- | --- | --- | --- | "
         "--- |\n");
  bool good = true;
  for (size_t i = 0; good && i < sizeof cases / sizeof *cases; i++)
    good = measure(backend, lane, &maps, cases[i][0], cases[i][1]);
  backend->lane_close(lane);
  backend->close(device);
  return good ? 0 : 1;
}
