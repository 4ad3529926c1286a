// See equal.h: lists of points. Their lengths are around those at which the GPU changes its method. Also choices among
// thousands of voxels with nearly the same rank.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cuda/equal.h"

enum { SIDE = 31, MOST_CELLS = SIDE * SIDE, MOST_POINTS = 20000 };

// How many points the cells of a cloud have. The mean decides how many threads the GPU uses for a list.
enum shape { FOUR, ABOUT_FOUR, SIXTEEN, ABOUT_SIXTEEN, FEW, ANY, ONE_BUT_SOME_LONG, SHAPES };

static int32_t points_of_cell(struct random *random, enum shape shape) {
  static const int32_t numbers[] = {1,   2,   3,   5,   7,   8,   9,   15,  16,  17,   31,   32,   33,   63,   64,  65,
                                    127, 128, 129, 255, 256, 257, 511, 512, 513, 1023, 1024, 1025, 4095, 4096, 4097};
  enum { NUMBERS = sizeof numbers / sizeof *numbers, FEW_ONES = 13, LONG_ONES = 12 };
  switch (shape) {
    case FOUR: return 4;
    case ABOUT_FOUR: return 3 + random_below(random, 3);
    case SIXTEEN: return 16;
    case ABOUT_SIXTEEN: return random_one_in(random, 2) ? 1 + random_below(random, 15) : 16 + random_below(random, 16);
    case FEW: return numbers[random_below(random, FEW_ONES)];
    case ANY: return numbers[random_below(random, NUMBERS)];
    default: return random_one_in(random, 400) ? numbers[NUMBERS - 1 - random_below(random, LONG_ONES)] : 1;
  }
}

static struct vx_job list_job(struct random *random) {
  static const vx_tensor_set sets[] = {BASE | BIT(VX_VOXELS), BIT(VX_VOXELS) | BIT(VX_VOXEL_FEATURES),
                                       MEAN | BIT(VX_POINT_VOXEL_IDS), PILLAR | BIT(VX_VOXEL_POINT_MASK)};
  static const int32_t caps[] = {1, 3, 4, 5, 7, 8, 9, 10, 15, 16, 17, 20, 31, 32, 33, 40};
  struct vx_job asked = {.op = VX_VOXELIZE, .tensors = sets[random_below(random, sizeof sets / sizeof *sets)]};
  struct vx_voxelize *params = &asked.params.voxelize;
  int32_t columns = random_one_in(random, 2)   ? 4
                    : random_one_in(random, 2) ? 3 + random_below(random, 6)
                                               : 15 + random_below(random, 4);
  asked.inputs[VX_POINTS] = vx_points_of(VX_FLOAT32, 0, columns, NULL);
  float extent = random_one_in(random, 4) ? 256 : 32;  // with the larger extent, cells are hashed
  for (int axis = 0; axis < 3; axis++) {
    params->range_max[axis] = extent;
    params->voxel_size[axis] = 1;
  }
  params->max_points_per_voxel = random_one_in(random, 4) ? 40 : caps[random_below(random, sizeof caps / sizeof *caps)];
  params->max_voxels = random_one_in(random, 2) ? 1 + random_below(random, 300) : VX_MAX_VOXELS;
  random_choice(random, &params->choice);
  bool filled = (asked.tensors & BIT(VX_VOXELS)) != 0 && random_one_in(random, 3);
  params->fill = filled ? VX_FILL_MEAN : VX_FILL_ZERO;
  params->feature_dtype = random_one_in(random, 3) ? VX_FLOAT16 : VX_FLOAT32;
  params->order = random_one_in(random, 3) ? VX_ORDER_KEY : VX_ORDER_FIRST;
  return asked;
}

// Fills cells[] with the cell of each point, shuffled or cell by cell. Returns the number of points.
static int32_t deal_points(struct random *random, enum shape shape, int32_t cells[MOST_POINTS]) {
  int32_t num_cells = 1 + random_below(random, MOST_CELLS), count = 0;
  for (int32_t cell = 0; cell < num_cells; cell++) {
    int32_t points = points_of_cell(random, shape);
    for (int32_t i = 0; i < points && count < MOST_POINTS; i++) cells[count++] = cell;
  }
  for (int32_t i = random_one_in(random, 4) ? 0 : count - 1; i > 0; i--) {
    int32_t other = random_below(random, i + 1), cell = cells[i];
    cells[i] = cells[other];
    cells[other] = cell;
  }
  return count;
}

// Most of about 3,500 voxels have one point, and all are far from the origin, so that their ranks are nearly equal.
static void test_crowded_ranks(struct side sides[2], struct random *random) {
  enum { EXTENT = 80, POINTS = 5000 };
  static const struct vx_voxelize params = {.range_min = {500000, -EXTENT / 2, 0},
                                            .range_max = {500000 + EXTENT, EXTENT / 2, 1},
                                            .voxel_size = {1, 1, 1},
                                            .max_points_per_voxel = 3,
                                            .max_voxels = 1000};
  static float points[POINTS][4];
  struct scan scan = {.name = "crowded", .points = points[0], .columns = 4, .num_points = POINTS, .num_clouds = 1};
  scan.counts[0] = POINTS;
  for (int32_t i = 0; i < POINTS; i++)
    for (int c = 0; c < 4; c++)
      points[i][c] =
          c < 2 ? params.range_min[c] + (float)random_below(random, EXTENT) + 0.5f : random_unit(random) * 0.9f;
  for (enum vx_voxels_by by = VX_VOXELS_NEAR; by <= VX_VOXELS_FULL; by++) {
    struct vx_job asked = {.op = VX_VOXELIZE, .tensors = MEAN | BIT(VX_POINT_VOXEL_IDS), .params.voxelize = params};
    asked.params.voxelize.choice.voxels_by = by;
    asked.inputs[VX_POINTS] = vx_points_of(VX_FLOAT32, 0, 4, NULL);
    compare(sides, &asked, &scan, "ranks");
  }
}

void test_lists(struct side sides[2], uint64_t seed, int jobs) {
  static struct scan scan;
  static int32_t cells[MOST_POINTS];
  struct random random = {seed ^ 0x11575};
  test_crowded_ranks(sides, &random);
  for (int job = 0; job < jobs; job++) {
    struct vx_job asked = list_job(&random);
    scan = (struct scan){.columns = (int32_t)asked.inputs[VX_POINTS].dims[1]};
    scan.num_points = deal_points(&random, (enum shape)(job % SHAPES), cells);
    float *points = malloc((size_t)scan.num_points * (size_t)scan.columns * sizeof *points);
    if (points == NULL) abort();
    for (int64_t i = 0; i < scan.num_points; i++) {
      const float corner[3] = {(float)(cells[i] % SIDE), (float)(cells[i] / SIDE), 3};
      for (int32_t c = 0; c < scan.columns; c++)
        points[i * scan.columns + c] = c < 3 ? corner[c] + 0.9f * random_unit(&random) : random_unit(&random);
    }
    scan.points = points;
    random_clouds(&random, &scan);
    snprintf(scan.name, sizeof scan.name, "%d", job);
    compare(sides, &asked, &scan, "lists");
    free(points);
  }
}
