// See equal.h: encoded pillars, alone and scattered to a map.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cuda/equal.h"

// ---- encoders -------------------------------------------------------------------------------------------------------

// Weights of both signs. Some are zeros, which make sums of -0, or so large that sums are not finite.
static void fill_weights(struct random *random, float *weights, size_t count) {
  bool zeros = random_one_in(random, 4), large = random_one_in(random, 6);
  for (size_t i = 0; i < count; i++) {
    weights[i] = random_unit(random) * 2 - 1;
    if (zeros && random_one_in(random, 3)) weights[i] = random_one_in(random, 2) ? -0.0f : 0.0f;
    if (large && random_one_in(random, 40)) weights[i] *= 1e38f;
  }
}

static void free_encoder(struct vx_encoder *encoder) {
  for (int32_t i = 0; i < encoder->num_layers; i++) free((void *)encoder->layers[i].weight);
}

// A layer's weight and bias share a block of memory.
static void make_encoder(struct random *random, int32_t columns, int32_t layers, const int32_t *widths,
                         struct vx_encoder *encoder) {
  int32_t inputs = columns + VX_PILLAR_EXTRA;
  encoder->num_layers = layers;
  for (int32_t i = 0; i < layers; i++) {
    size_t weights = (size_t)inputs * (size_t)widths[i];
    float *weight = malloc((weights + (size_t)widths[i]) * sizeof *weight);
    fill_weights(random, weight, weights + (size_t)widths[i]);
    encoder->layers[i] = (struct vx_encoder_layer){weight, weight + weights, inputs, widths[i]};
    inputs = 2 * widths[i];
  }
}

// Half have one layer, and half get points of 3 to 5 columns, as models do.
static void random_encoder(struct random *random, struct vx_job *asked) {
  static const int32_t some[] = {1, 2, 31, 32, 33, 63, 64, 65, 127, 200};
  int32_t widths[VX_MAX_ENCODER_LAYERS], layers = random_one_in(random, 3) ? 1 : 1 + random_below(random, 4);
  for (int32_t i = 0; i < layers; i++) {
    widths[i] = random_one_in(random, 2) ? some[random_below(random, 10)] : 1 + random_below(random, 70);
    if (layers > 1 && widths[i] > 70) widths[i] -= 64;  // limited, since the work grows with the square
  }
  if (random_one_in(random, 2)) asked->inputs[VX_POINTS].dims[1] = 3 + random_below(random, 3);
  make_encoder(random, job_columns(asked), layers, widths, &asked->params.voxelize.encoder);
}

// ---- jobs -----------------------------------------------------------------------------------------------------------

// Enlarges the voxels until the map of all clouds has at most `most` values.
static void fit_map(struct vx_job *asked, int32_t clouds, double most) {
  struct vx_voxelize *params = &asked->params.voxelize;
  struct vx_grid grid;
  struct error error;
  for (int turns = 0; turns < 64; turns++) {
    bool good = vx_grid_of(params, clouds, &grid, &error) == VX_OK;
    double values = (double)grid.cells[0] * grid.cells[1] * grid.cells[2] * clouds * vx_encoder_width(&params->encoder);
    if (good && values <= most) return;
    for (int axis = 0; axis < 3; axis++) {
      float extent = params->range_max[axis] - params->range_min[axis], size = params->voxel_size[axis] * 1.5f;
      params->voxel_size[axis] = size < extent ? size : extent;
    }
  }
}

static vx_tensor_set random_tensors(struct random *random, vx_tensor_set others) {
  switch (random_below(random, 4)) {
    case 0: return BIT(VX_ENCODED_FEATURES);
    case 1: return BIT(VX_BEV_FEATURES);
    case 2: return BASE | BIT(VX_ENCODED_FEATURES) | BIT(VX_BEV_FEATURES);
    default: return others | ((vx_tensor_set)random_bits(random) & VX_DENSE_TENSORS) | BIT(VX_ENCODED_FEATURES);
  }
}

// Replaces the job's points by points with the encoder's columns.
static void make_points(struct random *random, const struct vx_job *asked, struct scan *scan) {
  struct vx_box within;
  memcpy(within.min, asked->params.voxelize.range_min, sizeof within.min);
  memcpy(within.max, asked->params.voxelize.range_max, sizeof within.max);
  free(scan->points);
  random_points(random, asked, &within, scan);
}

static void test_random_encoder(struct side sides[2], struct random *random, int64_t largest, int number) {
  static struct scan scan;
  struct vx_job asked;
  bool small = largest < 100000;
  random_job(random, small ? largest : largest / 20, &asked, &scan);
  random_encoder(random, &asked);
  make_points(random, &asked, &scan);
  if (random_one_in(random, 2)) asked.params.voxelize.max_points_per_voxel = 1 + random_below(random, 100);
  asked.tensors = random_tensors(random, asked.tensors);
  asked.params.voxelize.sampling.enabled &= (asked.tensors & VX_SAMPLED_TENSORS) != 0;
  asked.params.voxelize.intensity = random_below(random, job_columns(&asked));
  fit_map(&asked, scan.num_clouds, small ? 1e5 : 2e7);
  snprintf(scan.name, sizeof scan.name, "%d", number);
  compare(sides, &asked, &scan, "random encoder");
  free(scan.points);
  free_encoder(&asked.params.voxelize.encoder);
}

// Encoders of many shapes, on one lane, which keeps the last weights.
static void test_shapes(struct side sides[2], struct random *random) {
  static const struct shape {
    int32_t columns, cap, layers, widths[VX_MAX_ENCODER_LAYERS];
  } shapes[] = {{4, 32, 1, {64}},  {4, 32, 1, {32}},  {5, 20, 2, {32, 64}},       {3, 100, 1, {64}},
                {64, 32, 1, {64}}, {33, 40, 1, {65}}, {4, 1, 4, {1, 31, 64, 65}}, {4, 0, 3, {16, 8, 70}},
                {4, 32, 1, {200}}, {5, 32, 1, {1}},   {4, 10, 2, {300, 5}},       {6, 32, 1, {64}}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    static struct scan scan = {.num_points = 1500, .num_clouds = 3, .counts = {900, 0, 600}};
    struct vx_job asked = pillars(4, shapes[i].cap);
    asked.inputs[VX_POINTS].dims[1] = shapes[i].columns;
    asked.tensors = BASE | BIT(VX_ENCODED_FEATURES) | (i % 2 == 0 ? BIT(VX_BEV_FEATURES) : 0);
    make_encoder(random, shapes[i].columns, shapes[i].layers, shapes[i].widths, &asked.params.voxelize.encoder);
    scan.points = NULL;
    make_points(random, &asked, &scan);
    fit_map(&asked, scan.num_clouds, 1e6);
    snprintf(scan.name, sizeof scan.name, "%d", (int)i);
    compare(sides, &asked, &scan, "encoder");
    free(scan.points);
    free_encoder(&asked.params.voxelize.encoder);
  }
}

// An encoder's tensor without an encoder, and an encoder for other columns.
static void test_refusals(struct side sides[2], struct random *random) {
  static float points[10][4];
  static struct scan scan = {.points = points, .num_points = 10, .num_clouds = 1, .counts = {10}};
  struct vx_job asked = pillars(4, 32);
  asked.tensors = BIT(VX_ENCODED_FEATURES);
  compare(sides, &asked, &scan, "no encoder");
  make_encoder(random, 5, 1, (const int32_t[]){64}, &asked.params.voxelize.encoder);
  compare(sides, &asked, &scan, "encoder of other columns");
  free_encoder(&asked.params.voxelize.encoder);
}

void test_encoders(struct side sides[2], uint64_t seed, int jobs, int64_t largest) {
  struct random random = {seed + 7};
  test_refusals(sides, &random);
  test_shapes(sides, &random);
  for (int i = 0; i < jobs; i++) test_random_encoder(sides, &random, largest, i);
}
