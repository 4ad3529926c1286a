// See equal.h: scattered rows, and the dense maps of voxelizations.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cuda/equal.h"

enum { DENSE = VX_BEV_DENSITY + 1 - VX_BEV_FEATURES };

// ---- scatter --------------------------------------------------------------------------------------------------------

// 0 .. limit - 1. If `strange`, a few are outside.
static int32_t random_coordinate(struct random *random, int32_t limit, bool strange) {
  const int32_t outside[] = {-1, limit, INT32_MIN, INT32_MAX};
  return strange && random_one_in(random, 40) ? outside[random_below(random, 4)] : random_below(random, limit);
}

static void random_rows(struct random *random, const struct vx_job *asked, int32_t clouds, int64_t rows,
                        int32_t *coords) {
  const int32_t *size = asked->params.scatter.grid_size, limits[4] = {clouds, size[2], size[1], size[0]};
  bool strange = random_one_in(random, 2), repeated = random_one_in(random, 3), one_cell = random_one_in(random, 8);
  for (int64_t row = 0; row < rows; row++) {
    for (int i = 0; i < 4; i++)
      coords[4 * row + i] = one_cell ? limits[i] / 2 : random_coordinate(random, limits[i], strange);
    if (repeated && row > 0 && random_one_in(random, 3))
      memcpy(coords + 4 * row, coords + 4 * (int64_t)(random_bits(random) % (uint64_t)row), 4 * sizeof *coords);
  }
}

// A grid of any shape, with up to about 2 * `values` cells.
static void random_grid(struct random *random, double values, int32_t size[3]) {
  double left = values < 1 ? 1 : values;
  size[2] = 1 + (random_one_in(random, 2) ? 0 : random_below(random, left < 40 ? (int32_t)left : 40));
  left /= size[2];
  size[0] = 1 + random_below(random, left < 700 ? (int32_t)left + 1 : 700);
  left /= size[0];
  size[1] = 1 + random_below(random, left < 700 ? (int32_t)left + 1 : 700);
}

// Features of any bits. Sometimes the features or the coordinates are aligned only to a value's size.
static void test_scatter(struct side sides[2], struct random *random, int64_t largest, int number) {
  static struct scan scan;
  int32_t channels = 1 + random_below(random, random_one_in(random, 4) ? 200 : 65);
  enum vx_dtype dtype = random_one_in(random, 3) ? VX_FLOAT16 : VX_FLOAT32;
  struct vx_job asked = {.op = VX_SCATTER,
                         .inputs = {{dtype, 2, {0, channels}, NULL}, {VX_INT32, 2, {0, 4}, NULL}},
                         .tensors = random_one_in(random, 8) ? 0 : VX_SCATTER_TENSORS};
  scan.columns = channels;
  scan.num_clouds = random_one_in(random, 2) ? 1 : 1 + random_below(random, random_one_in(random, 6) ? 1024 : 9);
  scan.num_points = random_size(random, largest) % (20000000 / channels);
  memset(scan.counts, 0, sizeof scan.counts);
  scan.counts[0] = (int32_t)scan.num_points;
  double values = largest < 100000 ? 1e6 : random_one_in(random, 8) ? 1.5e8 : 2e7;
  random_grid(random, values / channels / scan.num_clouds, asked.params.scatter.grid_size);
  size_t bytes = (size_t)scan.num_points * (size_t)channels * vx_dtype_size(dtype);
  size_t coord_bytes = ((size_t)scan.num_points + 1) * 4 * sizeof(int32_t);
  bool filled = random_one_in(random, 4);
  int32_t *coords = malloc(coord_bytes);
  unsigned char *features = malloc(bytes + 1);
  for (size_t i = 0; i < bytes; i++) features[i] = filled ? 0xFF : (unsigned char)random_bits(random);
  int32_t used = random_one_in(random, 3) ? 1 + scan.num_clouds / 2 : scan.num_clouds;
  random_rows(random, &asked, used, scan.num_points, coords);
  scan.unseen = random_one_in(random, 3);
  asked.inputs[VX_COORDS].dims[0] = scan.num_points;
  asked.inputs[VX_COORDS].data = coords;
  scan.points = features;
  scan.offset = random_one_in(random, 2) ? 0 : (size_t)random_below(random, 16) * vx_dtype_size(dtype);
  snprintf(scan.name, sizeof scan.name, "%d", number);
  compare(sides, &asked, &scan, "random scatter");
  free(features);
  free(coords);
}

// Grids with more cells than fit in any memory. No map is requested, so rows are only counted. Both backends must
// refuse the last grid.
static void test_huge_grids(struct side sides[2]) {
  static const int32_t sizes[][3] = {{1 << 20, 1 << 20, 1 << 20}, {INT32_MAX, INT32_MAX, 1}, {INT32_MAX, INT32_MAX, 2}};
  static const int32_t coords[][4] = {
      {0, 0, 1, 2}, {0, 1, 1, 2}, {0, 0, 1000000, 1000000}, {0, 0, 1, 2}, {0, 0, 1000000, 1000000}};
  static float features[5][3];
  static struct scan scan = {.points = features, .columns = 3, .num_clouds = 1, .counts = {5}, .num_points = 5};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    struct vx_job asked = {.op = VX_SCATTER, .inputs = {{VX_FLOAT32, 2, {5, 3}, NULL}, {VX_INT32, 2, {5, 4}, coords}}};
    memcpy(asked.params.scatter.grid_size, sizes[i], sizeof sizes[i]);
    compare(sides, &asked, &scan, "huge scatter");
  }
}

// ---- maps -----------------------------------------------------------------------------------------------------------

static size_t dense_bytes(const struct vx_job *asked, int32_t clouds) {
  struct vx_layout layout;
  struct error error;
  struct vx_job job = *asked;
  job.tensors &= VX_DENSE_TENSORS;
  job.num_clouds = clouds;
  struct vx_sizes sizes = vx_sizes_of(&job);
  return vx_layout_of(job.tensors, &sizes, &layout, &error) == VX_OK ? layout.bytes : SIZE_MAX;
}

// Enlarges the voxels until the maps fit.
static void fit_grid(struct vx_job *asked, int32_t clouds, size_t most) {
  struct vx_voxelize *params = &asked->params.voxelize;
  for (int turns = 0; turns < 64 && dense_bytes(asked, clouds) > most; turns++) {
    for (int axis = 0; axis < 3; axis++) {
      float extent = params->range_max[axis] - params->range_min[axis], size = params->voxel_size[axis] * 1.5f;
      params->voxel_size[axis] = size < extent ? size : extent;
    }
  }
}

static void test_random_maps(struct side sides[2], struct random *random, int64_t largest, int number) {
  struct vx_job asked;
  static struct scan scan;
  random_job(random, largest, &asked, &scan);
  asked.params.voxelize.intensity = random_below(random, job_columns(&asked));
  switch (random_below(random, 3)) {
    case 0: asked.tensors |= VX_DENSE_TENSORS; break;
    case 1:
      asked.tensors = BIT(VX_BEV_FEATURES + random_below(random, DENSE));
      asked.params.voxelize.sampling.enabled = false;
      break;
    default: asked.tensors |= random_bits(random) & VX_DENSE_TENSORS; break;
  }
  size_t most = largest < 100000 ? (size_t)4 << 20 : (size_t)(random_one_in(random, 8) ? 600 : 60) << 20;
  fit_grid(&asked, scan.num_clouds, most);
  snprintf(scan.name, sizeof scan.name, "%d", number);
  compare(sides, &asked, &scan, "random maps");
  free(scan.points);
}

// The grid of each preset, with all maps; the first maps are left out until the others fit. The last cloud of the batch
// is empty.
static void test_presets(struct side sides[2], const struct presets *presets, struct random *random, int64_t largest) {
  static struct scan scan = {.num_clouds = 3};
  size_t most = largest < 100000 ? (size_t)12 << 20 : (size_t)512 << 20;
  for (size_t k = 0; k < presets_count(presets); k++) {
    struct vx_job asked = presets_request(presets_at(presets, k))->job;
    const struct vx_voxelize *params = &asked.params.voxelize;
    if (asked.op != VX_VOXELIZE) continue;
    struct vx_box within;
    memcpy(within.min, params->range_min, sizeof within.min);
    memcpy(within.max, params->range_max, sizeof within.max);
    asked.tensors |= VX_DENSE_TENSORS;
    asked.params.voxelize.intensity = job_columns(&asked) - 1;
    for (int map = VX_BEV_FEATURES; map < VX_TENSOR_COUNT && dense_bytes(&asked, 3) > most; map++)
      asked.tensors &= ~BIT(map);
    scan.num_points = largest < 20000 ? largest : 20000;
    scan.counts[0] = (int32_t)scan.num_points / 3;
    scan.counts[1] = (int32_t)scan.num_points - scan.counts[0];
    random_points(random, &asked, &within, &scan);
    snprintf(scan.name, sizeof scan.name, "maps %llx", (unsigned long long)(asked.tensors & VX_DENSE_TENSORS));
    compare(sides, &asked, &scan, preset_name(presets_at(presets, k)));
    free(scan.points);
  }
}

void test_maps(struct side sides[2], const struct presets *presets, uint64_t seed, int jobs, int64_t largest) {
  struct random random = {seed + 3};
  test_huge_grids(sides);
  test_presets(sides, presets, &random, largest);
  for (int i = 0; i < jobs; i++) {
    test_scatter(sides, &random, largest, i);
    test_random_maps(sides, &random, largest, i);
  }
}
