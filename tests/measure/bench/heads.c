// See heads.h.
#include "tests/measure/bench/heads.h"

#include <string.h>

#include "kernels/anchors.h"

// As in the preset kitti_pointpillar.
static const struct vx_decode anchor_head = {.range_min = {0, -39.68f, -3},
                                             .range_max = {69.12f, 39.68f, 1},
                                             .num_sizes = 3,
                                             .num_rotations = 2,
                                             .sizes = {{3.9f, 1.6f, 1.56f}, {0.8f, 0.6f, 1.73f}, {1.76f, 0.6f, 1.73f}},
                                             .bottoms = {-1.78f, -0.6f, -0.6f},
                                             .rotations = {0, 1.57f},
                                             .dir_offset = 0.78539f,
                                             .dir_bins = HEADS_BINS,
                                             .score_threshold = 0.1f,
                                             .nms = {0.01f, 4096, 500, 1, 0, 0}};

// As in the preset nuscenes_centerpoint_voxel0075.
static const struct vx_decode_center center_head = {.range_min = {-54, -54, -5},
                                                    .range_max = {54, 54, 3},
                                                    .voxel_size = {0.075f, 0.075f, 0.2f},
                                                    .stride = 8,
                                                    .tasks.count = HEADS_TASKS,
                                                    .tasks.classes = {1, 2, 2, 1, 2, 2},
                                                    .score_threshold = 0.1f,
                                                    .max_objects = 500,
                                                    .limited = 1,
                                                    .center_min = {-61.2f, -61.2f, -10},
                                                    .center_max = {61.2f, 61.2f, 10},
                                                    .num_radii = 1,
                                                    .nms = {0.2f, 1000, 83, 1, 0, 0}};

static uint64_t state = 1;
static float random_in(float low, float high) {
  state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return low + (high - low) * ((float)(state >> 40) / 16777216.0f);
}

void heads_fill_anchors(struct heads_anchors *maps, int count, int objects) {
  memset(maps, 0, sizeof *maps);
  for (int i = 0; i < HEADS_ALL * HEADS_CLASSES; i++)
    maps->cls[i / HEADS_CLASSES][i % HEADS_CLASSES] = random_in(-9, -4);
  for (int i = 0; i < count; i++) {
    int object = i % objects, cell = (int)(((int64_t)i * HEADS_CELLS) / count), anchor = cell * HEADS_ANCHORS;
    int row = object / 10, column = object % 10;
    float x = 4 + 6 * (float)column, y = -36 + 5 * (float)row;
    float *moves = maps->box[anchor], diagonal = sqrtf(3.9f * 3.9f + 1.6f * 1.6f);
    maps->cls[anchor][0] = random_in(-2, 4);
    moves[0] =
        (x + random_in(-0.3f, 0.3f) - vx_anchor_place(&anchor_head, 0, cell % HEADS_WIDTH, HEADS_WIDTH)) / diagonal;
    moves[1] =
        (y + random_in(-0.3f, 0.3f) - vx_anchor_place(&anchor_head, 1, cell / HEADS_WIDTH, HEADS_HEIGHT)) / diagonal;
    moves[3] = random_in(-0.1f, 0.1f);
    moves[6] = random_in(-0.2f, 0.2f);
  }
}

struct vx_job heads_anchor_job(const struct heads_anchors *maps) {
  static const int32_t rows[] = {HEADS_ALL};
  const int64_t logits = (int64_t)HEADS_ANCHORS * HEADS_CLASSES, values = (int64_t)HEADS_ANCHORS * VX_BOX_VALUES,
                bins = (int64_t)HEADS_ANCHORS * HEADS_BINS;
  return (struct vx_job){.op = VX_DECODE,
                         .params.decode = anchor_head,
                         .inputs = {{VX_FLOAT32, 4, {1, HEADS_HEIGHT, HEADS_WIDTH, logits}, maps->cls},
                                    {VX_FLOAT32, 4, {1, HEADS_HEIGHT, HEADS_WIDTH, values}, maps->box},
                                    {VX_FLOAT32, 4, {1, HEADS_HEIGHT, HEADS_WIDTH, bins}, maps->dir}},
                         .tensors = VX_DECODE_TENSORS,
                         .num_clouds = 1,
                         .point_counts = rows};
}

static void fill_place(struct heads_centers *maps, int place) {
  for (int label = 0; label < HEADS_ALL_CLASSES; label++) maps->heatmap[place][label] = random_in(-9, -4);
  for (int task = 0; task < HEADS_TASKS; task++) {
    for (int i = 0; i < 2; i++) {
      maps->center[place][task][i] = random_in(0, 1);
      maps->rot[place][task][i] = random_in(-1, 1);
      maps->vel[place][task][i] = random_in(-5, 5);
    }
    maps->height[place][task] = random_in(-2, 1);
    for (int i = 0; i < 3; i++) maps->dim[place][task][i] = random_in(-0.5f, 1.6f);
  }
}

void heads_fill_centers(struct heads_centers *maps, int count) {
  enum { PATCH = 3 };
  int row = 0, column = 0, label = 0;
  for (int place = 0; place < HEADS_PLACES; place++) fill_place(maps, place);
  for (int i = 0; i < count; i++) {
    int within = i % (PATCH * PATCH);
    if (within == 0) {
      row = (int)random_in(0, HEADS_SIDE - PATCH);
      column = (int)random_in(0, HEADS_SIDE - PATCH);
      label = (int)random_in(0, HEADS_ALL_CLASSES);
    }
    maps->heatmap[(row + within / PATCH) * HEADS_SIDE + column + within % PATCH][label] = random_in(-2, 4);
  }
}

struct vx_job heads_center_job(const struct heads_centers *maps) {
  static const int32_t rows[] = {HEADS_PLACES * HEADS_ALL_CLASSES};
  struct vx_job job = {.op = VX_DECODE_CENTER,
                       .params.center = center_head,
                       .tensors = VX_DECODE_TENSORS,
                       .num_clouds = 1,
                       .point_counts = rows};
  const void *const data[] = {maps->heatmap, maps->center, maps->height, maps->dim, maps->rot, maps->vel};
  const int32_t channels[] = {HEADS_ALL_CLASSES, 2 * HEADS_TASKS, HEADS_TASKS,
                              3 * HEADS_TASKS,   2 * HEADS_TASKS, 2 * HEADS_TASKS};
  for (int i = 0; i <= VX_VEL; i++)
    job.inputs[i] = (struct vx_input){VX_FLOAT32, 4, {1, HEADS_SIDE, HEADS_SIDE, channels[i]}, data[i]};
  return job;
}
