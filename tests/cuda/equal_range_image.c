// See equal.h: range images, with and without steps before them.
#include <stdio.h>
#include <stdlib.h>

#include "tests/cuda/equal.h"

static void random_view(struct random *random, int32_t columns, struct vx_range_image *image) {
  static const int32_t heights[] = {1, 3, 16, 64}, widths[] = {1, 7, 64, 1000};
  static const double edges[] = {-90, -30, -25, 0, 2, 3, 10, 90};
  int lower = random_below(random, 7);
  *image = (struct vx_range_image){
      .height = heights[random_below(random, 4)],
      .width = widths[random_below(random, 4)],
      .fov_up = edges[lower + 1 + random_below(random, 7 - lower)],
      .fov_down = edges[lower],
      .rows = (enum vx_image_rows)random_below(random, VX_ROWS_RING_DOWN + 1),
      .ring = random_one_in(random, 2) ? VX_KITTI_RINGS : random_below(random, columns),
      .outside = (enum vx_outside)random_below(random, VX_OUTSIDE_DROP + 1),
      .winner = (enum vx_winner)random_below(random, VX_WINNER_LAST + 1),
      .empty = (float)random_below(random, 3) - 1,
      .num_channels = 1 + random_below(random, 8),
  };
  bool normal = random_one_in(random, 2);
  image->num_means = image->num_stds = normal ? image->num_channels : 0;
  for (int32_t i = 0; i < image->num_channels; i++) {
    image->channels[i] = random_below(random, columns + 1) - 1;
    image->means[i] = random_unit(random) * 20 - 10;
    image->stds[i] = random_unit(random) + 1e-3f;
  }
}

// Makes all values small whole numbers, so that points share distances and lie on borders.
static void round_points(struct random *random, const struct vx_job *asked, struct scan *scan) {
  enum vx_dtype dtype = asked->inputs[VX_POINTS].dtype;
  for (int64_t i = 0; i < scan->num_points * scan->columns; i++) {
    float value = (float)(random_below(random, 9) - 4);
    vx_narrow(dtype, &value, 1, (unsigned char *)scan->points + (size_t)i * vx_dtype_size(dtype));
  }
}

static void test_image(struct side sides[2], struct random *random, int64_t largest, int number) {
  static struct scan scan;
  const struct vx_box within = {{-40, -40, -4}, {40, 40, 4}};
  int32_t columns = 3 + random_below(random, random_one_in(random, 8) ? 20 : 4);
  struct vx_chain chain;
  struct vx_job asked = {.op = VX_RANGE_IMAGE_OP,
                         .inputs = {vx_points_of(random_one_in(random, 4) ? VX_FLOAT16 : VX_FLOAT32, 0, columns, NULL)},
                         .tensors = random_bits(random) & VX_RANGE_IMAGE_TENSORS};
  scan.columns = columns;
  scan.num_points = random_size(random, largest < 20000000 / columns ? largest : 20000000 / columns);
  random_clouds(random, &scan);
  random_sections(random, &scan);
  random_points(random, &asked, &within, &scan);
  if (random_one_in(random, 3)) round_points(random, &asked, &scan);
  random_view(random, columns, &asked.params.image);
  if (random_one_in(random, 2)) {
    random_chain(random, &scan, &chain);
    chain.count = chain.count < 3 ? chain.count : 3;
    asked.chain = &chain;
    asked.tensors |= random_bits(random) & VX_CHAIN_TENSORS;
  }
  snprintf(scan.name, sizeof scan.name, "%d", number);
  random_deskew(random, &scan, &asked);
  compare(sides, &asked, &scan, "range image");
  free(scan.points);
}

void test_range_images(struct side sides[2], uint64_t seed, int jobs, int64_t largest) {
  struct random random = {seed + 9};
  for (int i = 0; i < 3 * jobs; i++) test_image(sides, &random, largest, i);
}
