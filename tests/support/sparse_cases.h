// Random backbones and random occupied cells, for tests of sparse convolution.
#ifndef VOXELD_TESTS_SPARSE_CASES_H
#define VOXELD_TESTS_SPARSE_CASES_H

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/sparse.h"

enum { SPARSE_CASE_CLOUDS = 5 };

struct sparse_case {
  uint64_t random;
  struct vx_sparse backbone;
  struct vx_sparse_rows rows;
  float *weights;
  int32_t *coords;
  float *features;
  int64_t values;  // of the map
};

static inline uint32_t sparse_case_bits(struct sparse_case *made) {
  made->random = made->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (uint32_t)(made->random >> 33);
}
static inline int32_t sparse_case_below(struct sparse_case *made, int32_t limit) {
  return (int32_t)(sparse_case_bits(made) % (uint32_t)limit);
}
// From -1 to 1.
static inline float sparse_case_unit(struct sparse_case *made) {
  return (float)(int32_t)(sparse_case_bits(made) << 1) * 0x1p-31f;
}

static inline float sparse_case_feature(struct sparse_case *made) {
  static const float odd[] = {NAN, INFINITY, -INFINITY, -0.0f, 0.0f, 1e-42f, -1e-45f, 3e38f};
  return sparse_case_below(made, 97) == 0 ? odd[sparse_case_below(made, 8)] : sparse_case_unit(made);
}

// A random layer, strided with probability 1/3.
static inline void sparse_case_layer(struct sparse_case *made, int32_t number, int32_t inputs) {
  struct vx_sparse_layer *layer = &made->backbone.layers[number];
  *layer = (struct vx_sparse_layer){.inputs = inputs, .submanifold = sparse_case_below(made, 3) != 0};
  layer->width = VX_SPARSE_WIDTH_STEP * (1 + sparse_case_below(made, VX_MAX_SPARSE_WIDTH / VX_SPARSE_WIDTH_STEP));
  for (int axis = 0; axis < 3; axis++) {
    bool usual = sparse_case_below(made, 3) != 0;
    layer->kernel[axis] = usual ? 3 : layer->submanifold ? 1 : 1 + sparse_case_below(made, 3);
    layer->stride[axis] = usual ? 2 : 1 + sparse_case_below(made, 2);
    layer->padding[axis] = usual ? 1 : sparse_case_below(made, 2);
  }
  layer->adds = number > 0 && layer->submanifold && layer[-1].submanifold && sparse_case_below(made, 2) != 0;
  if (layer->adds) layer->width = layer[-1].inputs;
  if (layer->width % VX_SPARSE_WIDTH_STEP != 0) layer->adds = false, layer->width = VX_SPARSE_WIDTH_STEP;
}

static inline void sparse_case_layers(struct sparse_case *made, int32_t inputs, int32_t most_layers) {
  made->backbone.num_layers = 1 + sparse_case_below(made, most_layers);
  for (int32_t i = 0; i < made->backbone.num_layers; i++) {
    sparse_case_layer(made, i, inputs);
    inputs = made->backbone.layers[i].width;
  }
}

static inline void sparse_case_fill(struct sparse_case *made) {
  size_t count = 0;
  for (int32_t i = 0; i < made->backbone.num_layers; i++) {
    const struct vx_sparse_layer *layer = &made->backbone.layers[i];
    count += (size_t)((vx_sparse_offsets(layer) * layer->inputs + 1) * layer->width);
  }
  float *weight = made->weights = malloc((count + 1) * sizeof *weight);
  for (int32_t i = 0; weight && i < made->backbone.num_layers; i++) {
    struct vx_sparse_layer *layer = &made->backbone.layers[i];
    int32_t weights = vx_sparse_offsets(layer) * layer->inputs * layer->width;
    layer->weight = weight;
    layer->bias = weight + weights;
    for (int32_t j = 0; j < weights + layer->width; j++) *weight++ = 0.25f * sparse_case_unit(made);
  }
}

// Occupied cells in a random order. A cell of cloud c is occupied with the probability share / (256 * (1 + c)); cloud 1
// has none.
static inline void sparse_case_cells(struct sparse_case *made, int32_t share) {
  const int32_t *shape = made->backbone.shape, inputs = made->backbone.layers[0].inputs;
  int32_t cells = shape[0] * shape[1] * shape[2], clouds = made->rows.num_clouds, count = 0;
  made->coords = malloc((size_t)(clouds * cells + 1) * 4 * sizeof *made->coords);
  for (int32_t i = 0; i < clouds * cells; i++) {
    if (i / cells == 1 || sparse_case_below(made, 256 * (1 + i / cells)) >= share) continue;
    int32_t to = sparse_case_below(made, count + 1), cell = i % cells;
    memcpy(made->coords + (size_t)4 * (size_t)count, made->coords + (size_t)4 * (size_t)to, 4 * sizeof *made->coords);
    memcpy(made->coords + (size_t)4 * (size_t)to,
           (const int32_t[]){i / cells, cell / (shape[1] * shape[2]), cell / shape[2] % shape[1], cell % shape[2]},
           4 * sizeof *made->coords);
    count++;
  }
  made->features = malloc((size_t)(count * inputs + 1) * sizeof *made->features);
  for (int32_t i = 0; i < count * inputs; i++) made->features[i] = sparse_case_feature(made);
  made->rows.num_rows = count;
  made->rows.coords = made->coords;
  made->rows.features = made->features;
}

// Makes the case of a seed; free_sparse_case frees it. Grids have up to `size` cells along z and y and 14 times as many
// along x.
static inline struct sparse_case make_sparse_case(uint64_t seed, int32_t most_layers, int32_t size) {
  static const int32_t shares[] = {0, 2, 16, 64, 256};
  struct sparse_case made = {.random = seed * UINT64_C(0x9E3779B97F4A7C15) + 1};
  struct vx_sparse_plan plan;
  struct error error;
  do {
    int32_t inputs = 1 + sparse_case_below(&made, 8);
    for (int axis = 0; axis < 3; axis++)
      made.backbone.shape[axis] = 1 + sparse_case_below(&made, axis == 2 ? 14 * size : size);
    sparse_case_layers(&made, inputs, most_layers);
  } while (vx_sparse_plan_of(&made.backbone, &plan, &error) != VX_OK);
  made.rows = (struct vx_sparse_rows){.num_clouds = 1 + sparse_case_below(&made, SPARSE_CASE_CLOUDS),
                                      .max_rows = VX_MAX_SPARSE_ROWS};
  made.values = vx_sparse_map_values(&plan, made.rows.num_clouds);
  sparse_case_fill(&made);
  sparse_case_cells(&made, shares[sparse_case_below(&made, 5)]);
  return made;
}

static inline void free_sparse_case(struct sparse_case *made) {
  free(made->weights);
  free(made->coords);
  free(made->features);
}

// The first case from `seed` on with `rows` rows or more.
static inline struct sparse_case make_full_sparse_case(uint64_t seed, int32_t most_layers, int32_t size, int32_t rows) {
  struct sparse_case made = make_sparse_case(seed, most_layers, size);
  while (made.rows.num_rows < rows) {
    free_sparse_case(&made);
    made = make_sparse_case(++seed, most_layers, size);
  }
  return made;
}

#endif
