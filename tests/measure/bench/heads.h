// Maps like those of a network's heads, for the benchmarks. The maps belong to the caller. One thread.
#ifndef VOXELD_TESTS_BENCH_HEADS_H
#define VOXELD_TESTS_BENCH_HEADS_H

#include "kernels/kernels.h"

// A KITTI anchor head.
enum { HEADS_HEIGHT = 248, HEADS_WIDTH = 216, HEADS_ANCHORS = 6, HEADS_CLASSES = 3, HEADS_BINS = 2 };
enum { HEADS_CELLS = HEADS_HEIGHT * HEADS_WIDTH, HEADS_ALL = HEADS_CELLS * HEADS_ANCHORS };

struct heads_anchors {
  float cls[HEADS_ALL][HEADS_CLASSES], box[HEADS_ALL][VX_BOX_VALUES], dir[HEADS_ALL][HEADS_BINS];
};

// A nuScenes centre head: 6 tasks, which have 10 classes in all.
enum { HEADS_SIDE = 180, HEADS_TASKS = 6, HEADS_ALL_CLASSES = 10, HEADS_PLACES = HEADS_SIDE * HEADS_SIDE };

struct heads_centers {
  float heatmap[HEADS_PLACES][HEADS_ALL_CLASSES];
  float center[HEADS_PLACES][HEADS_TASKS][2], height[HEADS_PLACES][HEADS_TASKS], dim[HEADS_PLACES][HEADS_TASKS][3];
  float rot[HEADS_PLACES][HEADS_TASKS][2], vel[HEADS_PLACES][HEADS_TASKS][2];
};

// Makes `count` anchors of cars reach the threshold, each with its box within 0.3 m of one of `objects` places.
void heads_fill_anchors(struct heads_anchors *maps, int count, int objects);
// The job for one cloud. The caller must still set `caller`, `ctx` and row_counts.
struct vx_job heads_anchor_job(const struct heads_anchors *maps);

// Makes `count` candidates reach the threshold, in patches of 3 x 3 cells at random places. A patch has one class.
void heads_fill_centers(struct heads_centers *maps, int count);
struct vx_job heads_center_job(const struct heads_centers *maps);

#endif
