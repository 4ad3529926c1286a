// See equal.h: moved and filtered points. The CPU's lane is the reference.
#include <stdio.h>
#include <stdlib.h>

#include "tests/cuda/equal.h"

static struct vx_box random_box(struct random *random) {
  struct vx_box box;
  for (int axis = 0; axis < 3; axis++) {
    box.min[axis] = 60 * random_unit(random) - 40;
    box.max[axis] = box.min[axis] + 1e-3f + random_unit(random) * (random_one_in(random, 3) ? 80 : 10);
  }
  return box;
}

static void random_matrix(struct random *random, float *matrix) {
  static const float scales[] = {1, 1, 1, 0, 1e-20f, 1e30f};
  float scale = scales[random_below(random, sizeof scales / sizeof scales[0])];
  for (int i = 0; i < 12; i++) matrix[i] = (random_unit(random) * 2 - 1) * (i % 4 == 3 ? 20 : 1) * scale;
  matrix[12] = matrix[13] = matrix[14] = 0;
  matrix[15] = 1;
}

static void test_random(struct side sides[2], struct random *random, int64_t largest, int number) {
  static struct scan scan;
  static float matrices[VX_MAX_CLOUDS][VX_MATRIX_VALUES];
  struct vx_box cuts[VX_MAX_CUTS];
  const struct vx_box within = {{-40, -40, -4}, {40, 40, 4}};
  int32_t columns = 3 + random_below(random, random_one_in(random, 8) ? 62 : 8);
  struct vx_job asked = {.op = VX_TRANSFORM,
                         .inputs = {vx_points_of(random_one_in(random, 4) ? VX_FLOAT16 : VX_FLOAT32, 0, columns, NULL)},
                         .tensors = random_bits(random) & VX_TRANSFORM_TENSORS};
  scan.columns = columns;
  scan.num_points = random_size(random, largest < 20000000 / columns ? largest : 20000000 / columns);
  random_clouds(random, &scan);
  random_points(random, &asked, &within, &scan);
  if (!random_one_in(random, 4)) {
    int32_t count = random_one_in(random, 2) ? 1 : scan.num_clouds;
    for (int32_t i = 0; i < count; i++) random_matrix(random, matrices[i]);
    asked.inputs[VX_MATRIX] = (struct vx_input){VX_FLOAT32, 3, {count, 4, 4}, matrices};
  }
  struct vx_transform *params = &asked.params.transform;
  params->cropped = random_one_in(random, 2);
  params->crop = random_box(random);
  params->num_cuts = random_one_in(random, 3) ? 0 : random_below(random, VX_MAX_CUTS + 1);
  for (int32_t i = 0; i < params->num_cuts; i++) cuts[i] = random_box(random);
  params->cuts = cuts;
  snprintf(scan.name, sizeof scan.name, "%d", number);
  compare(sides, &asked, &scan, "random transform");
  free(scan.points);
}

void test_transforms(struct side sides[2], uint64_t seed, int jobs, int64_t largest) {
  struct random random = {seed + 2};
  for (int i = 0; i < jobs; i++) test_random(sides, &random, largest, i);
}
