// A backbone on a GPU. cuda_sparse, at the end of this file, shows all of it.
//
// The cells of all levels are found first. The host waits for their numbers, so each array has its exact size, and too
// many rows are refused before any convolution. Everything else is enqueued without a wait.
#include "kernels/cuda/sparse/sparse.cuh"

#include <string.h>

struct sparse {
  struct cuda_run run;
  const struct vx_sparse *backbone;
  const struct vx_sparse_rows *rows;
  struct vx_sparse_plan plan;
  struct sparse_level levels[VX_MAX_SPARSE_LEVELS];
  struct sparse_found *found;
  struct sparse_table table;
  uint32_t (*classes)[SPARSE_CLASSES + 1];  // [layers]: of the tables
  // A layer reads `in` and writes `out`. `before` has the input of the layer before.
  float *in, *out, *before;
};

// ---- levels ---------------------------------------------------------------------------------------------------------

static void take_levels(struct sparse *sparse, struct cuda_arena *arena) {
  take(arena, &sparse->found, 1);
  for (int32_t i = 0; i < sparse->plan.num_levels; i++) {
    struct sparse_level *level = &sparse->levels[i];
    const int32_t *shape = sparse->plan.shape[i];
    memcpy(level->shape, shape, sizeof level->shape);
    level->clouds = sparse->rows->num_clouds;
    level->words = (shape[2] + 2 + 31) / 32;
    level->all_words = (uint64_t)level->clouds * shape[0] * shape[1] * level->words;
    take(arena, &level->bits, level->all_words + 1);
    take(arena, &level->ranks, level->all_words);
    take(arena, &level->sums, sparse_word_blocks(*level));
  }
}

static struct sparse_window window_of(const struct sparse *sparse, int32_t number) {
  const struct vx_sparse_layer *layer = &sparse->backbone->layers[number];
  struct sparse_window window = {};
  int32_t to = sparse->plan.level[number];
  for (int axis = 0; axis < 3; axis++) {
    window.kernel[axis] = layer->kernel[axis];
    window.stride[axis] = vx_sparse_stride(layer, axis);
    window.padding[axis] = vx_sparse_padding(layer, axis);
  }
  window.offsets = vx_sparse_offsets(layer);
  window.from = sparse->levels[layer->submanifold ? to : to - 1];
  window.to = sparse->levels[to];
  return window;
}

// `to`: host memory.
static __global__ void publish_kernel(const struct sparse_found *found, struct sparse_found *to) {
  cuda_wait_alone();
  *to = *found;
  __threadfence_system();
}

static enum vx_status enqueue_levels(struct sparse *sparse, struct error *error) {
  const struct cuda_run *run = &sparse->run;
  struct sparse_level *first = &sparse->levels[0];
  CUDA_CALL(cudaMemsetAsync(sparse->found, 0, sizeof *sparse->found, run->stream), error);
  CUDA_CALL(cudaMemsetAsync(&sparse->found->outside, 0xFF, sizeof sparse->found->outside, run->stream), error);
  CUDA_CALL(cudaMemsetAsync(first->bits, 0, first->all_words * sizeof *first->bits, run->stream), error);
  CUDA_TRY(sparse_mark(run, *first, sparse->rows, sparse->found, error));
  CUDA_TRY(sparse_count(run, *first, 0, sparse->found, error));
  for (int32_t i = 0, level = 0; i < sparse->backbone->num_layers; i++) {
    if (sparse->plan.level[i] == level) continue;
    level = sparse->plan.level[i];
    CUDA_TRY(sparse_stride(run, window_of(sparse, i), error));
    CUDA_TRY(sparse_count(run, sparse->levels[level], level, sparse->found, error));
  }
  return cuda_launch("publish_kernel", publish_kernel, 1, 1, 0, run, error, sparse->found,
                     (struct sparse_found *)run->lane->status_on_device->sparse);
}

static enum vx_status read_levels(struct sparse *sparse, int64_t *level_rows, struct error *error) {
  struct sparse_found found;
  static_assert(sizeof found <= sizeof sparse->run.lane->status->sparse, "the host has no room for the numbers");
  CUDA_CALL(cudaStreamSynchronize(sparse->run.stream), error);
  memcpy(&found, (const void *)sparse->run.lane->status->sparse, sizeof found);
  if (found.outside != UINT32_MAX || found.repeated != 0)
    return vx_sparse_refuse_cells(sparse->rows, found.outside == UINT32_MAX ? -1 : (int64_t)found.outside, error);
  for (int32_t i = 0; i < sparse->plan.num_levels; i++) level_rows[i] = (int64_t)found.rows[i];
  for (int32_t i = 0; i < sparse->plan.num_levels; i++) {
    if (level_rows[i] > sparse->rows->max_rows)
      return vx_sparse_refuse_rows(i, level_rows[i], sparse->rows->max_rows, error);
    sparse->levels[i].num_rows = (uint32_t)found.rows[i];
  }
  return VX_OK;
}

static enum vx_status find_levels(struct sparse *sparse, int64_t *level_rows, struct error *error) {
  struct vx_lane *lane = sparse->run.lane;
  struct cuda_arena measured = {}, arena = {};
  take_levels(sparse, &measured);
  CUDA_TRY(cuda_reserve(lane, &lane->levels, measured.used, error));
  arena.memory = lane->levels.memory;
  take_levels(sparse, &arena);
  CUDA_TRY(enqueue_levels(sparse, error));
  return read_levels(sparse, level_rows, error);
}

// ---- memory ---------------------------------------------------------------------------------------------------------

static void take_features(struct sparse *sparse, struct cuda_arena *arena) {
  uint64_t most = 0, values = (uint64_t)sparse->rows->num_rows * sparse->backbone->layers[0].inputs;
  for (int32_t i = 0; i < sparse->plan.num_levels; i++) {
    uint64_t rows = sparse->levels[i].num_rows;
    take(arena, &sparse->levels[i].cells, rows);
    most = rows > most ? rows : most;
  }
  for (int32_t i = 0; i < sparse->backbone->num_layers; i++) {
    uint64_t here = (uint64_t)sparse->levels[sparse->plan.level[i]].num_rows * sparse->backbone->layers[i].width;
    values = here > values ? here : values;
  }
  uint64_t tiles = sparse_tiles(most);
  take(arena, &sparse->table.masks, most);
  take(arena, &sparse->classes, VX_MAX_SPARSE_LAYERS);
  take(arena, &sparse->table.order, tiles * SPARSE_TILE);
  take(arena, &sparse->table.tiles, tiles);
  take(arena, &sparse->table.inputs, tiles * VX_MAX_SPARSE_OFFSETS * SPARSE_TILE);
  take(arena, &sparse->in, values);
  take(arena, &sparse->out, values);
  take(arena, &sparse->before, values);
}

static enum vx_status prepare(struct sparse *sparse, struct error *error) {
  struct vx_lane *lane = sparse->run.lane;
  struct cuda_arena measured = {}, arena = {};
  take_features(sparse, &measured);
  CUDA_TRY(cuda_reserve(lane, &lane->sparse, measured.used, error));
  arena.memory = lane->sparse.memory;
  take_features(sparse, &arena);
  CUDA_CALL(
      cudaMemsetAsync(sparse->classes, 0, sizeof *sparse->classes * sparse->backbone->num_layers, sparse->run.stream),
      error);
  CUDA_TRY(sparse_number(&sparse->run, sparse->levels, sparse->plan.num_levels, error));
  if (sparse->rows->num_rows == 0) return VX_OK;
  return sparse_sort(&sparse->run, sparse->levels[0], sparse->rows, sparse->backbone->layers[0].inputs, sparse->in,
                     error);
}

// ---- layers ---------------------------------------------------------------------------------------------------------

// Whether the layer has the same table as the layer before.
static bool keeps_table(const struct vx_sparse *backbone, int32_t number) {
  const struct vx_sparse_layer *layer = &backbone->layers[number];
  return number > 0 && layer->submanifold && layer[-1].submanifold &&
         memcmp(layer->kernel, layer[-1].kernel, sizeof layer->kernel) == 0;
}

static enum vx_status run_layer(struct sparse *sparse, int32_t number, struct error *error) {
  const struct vx_sparse_layer *layer = &sparse->backbone->layers[number];
  uint64_t rows = sparse->levels[sparse->plan.level[number]].num_rows;
  if (rows > 0) {
    struct sparse_layer view = {layer->weight, layer->bias,   sparse->in,   layer->adds ? sparse->before : NULL,
                                sparse->out,   layer->inputs, layer->width, 0};
    sparse->table.classes = sparse->classes[number];
    if (!keeps_table(sparse->backbone, number))
      CUDA_TRY(sparse_fill_table(&sparse->run, window_of(sparse, number), sparse->table, error));
    CUDA_TRY(sparse_convolve(&sparse->run, sparse->table, view, rows, error));
  }
  float *free = sparse->before;
  sparse->before = sparse->in;
  sparse->in = sparse->out;
  sparse->out = free;
  return VX_OK;
}

enum vx_status cuda_sparse(struct vx_lane *lane, const struct vx_sparse *backbone, const struct vx_sparse_rows *rows,
                           struct vx_sparse_result *result, struct error *error) {
  struct sparse sparse = {};
  sparse.run.lane = lane;
  sparse.run.stream = lane->stream;
  sparse.backbone = backbone;
  sparse.rows = rows;
  CUDA_TRY(vx_sparse_plan_of(backbone, &sparse.plan, error));
  CUDA_TRY(vx_sparse_rows_fit(&sparse.plan, rows, error));
  CUDA_TRY(find_levels(&sparse, result->level_rows, error));
  CUDA_TRY(prepare(&sparse, error));
  for (int32_t i = 0; i < backbone->num_layers; i++) CUDA_TRY(run_layer(&sparse, i, error));
  const struct sparse_level &last = sparse.levels[sparse.plan.num_levels - 1];
  result->coords = (const int32_t *)last.cells;
  result->features = sparse.in;
  return result->map ? sparse_fill_map(&sparse.run, last, sparse.in, sparse.plan.width, result->map, error) : VX_OK;
}

enum vx_status cuda_sparse_wait(struct vx_lane *lane, struct error *error) {
  CUDA_CALL(cudaStreamSynchronize(lane->stream), error);
  return VX_OK;
}
