// See equal.h: points ordered along curves, and pooled.
#include <stdio.h>
#include <stdlib.h>

#include "tests/cuda/equal.h"

static void random_orders(struct random *random, struct vx_serialize *params) {
  bool used[VX_CURVES] = {false};
  params->num_orders = 1 + random_below(random, VX_CURVES);
  for (int32_t i = 0; i < params->num_orders; i++) {
    int32_t curve = random_below(random, VX_CURVES);
    while (used[curve]) curve = (curve + 1) % VX_CURVES;
    used[curve] = true;
    params->orders[i] = curve;
  }
}

static void random_serialize(struct random *random, struct vx_serialize *params) {
  static const float sizes[] = {0.05f, 0.1f, 0.5f, 1, 3, 10, 200, 1e-4f};
  for (int axis = 0; axis < 3; axis++) {
    params->size[axis] = sizes[random_below(random, sizeof sizes / sizeof *sizes)];
    if (axis > 0 && !random_one_in(random, 3)) params->size[axis] = params->size[0];
    params->origin[axis] = 80 * random_unit(random) - 60;
  }
  params->fixed = random_one_in(random, 3);
  params->depth = random_one_in(random, 3) ? 8 + random_below(random, 9) : 0;
  params->num_pools = random_one_in(random, 3) ? 0 : 1 + random_below(random, VX_MAX_POOLS);
  for (int32_t i = 0; i < params->num_pools; i++)
    params->strides[i] = random_one_in(random, 4) ? 1 << random_below(random, VX_MAX_SERIAL_DEPTH + 1) : 2;
  random_orders(random, params);
}

// If there are no strides, the tensors of pools have no rows.
static void test_random(struct side sides[2], struct random *random, int64_t largest, int number) {
  static struct scan scan;
  const struct vx_box within = {{-40, -40, -4}, {40, 40, 4}};
  int32_t columns = 3 + random_below(random, 4);
  struct vx_chain chain = {.count = 0};
  struct vx_job asked = {.op = VX_SERIALIZE,
                         .inputs = {vx_points_of(random_one_in(random, 4) ? VX_FLOAT16 : VX_FLOAT32, 0, columns, NULL)},
                         .chain = &chain};
  asked.tensors = VX_SERIAL_TENSORS | VX_POOL_TENSORS | VX_CHAIN_TENSORS;
  if (random_one_in(random, 3)) asked.tensors &= random_bits(random);
  random_serialize(random, &asked.params.serialize);
  scan.columns = columns;
  scan.num_points = random_size(random, largest < 2000000 ? largest : 2000000);
  random_clouds(random, &scan);
  random_points(random, &asked, &within, &scan);
  if (random_one_in(random, 2)) random_chain(random, &scan, &chain);
  snprintf(scan.name, sizeof scan.name, "%d", number);
  random_deskew(random, &scan, &asked);
  compare(sides, &asked, &scan, "random serialize");
  free(scan.points);
}

void test_serialize(struct side sides[2], uint64_t seed, int jobs, int64_t largest) {
  struct random random = {seed + 17};
  for (int i = 0; i < jobs; i++) test_random(sides, &random, largest, i);
}
