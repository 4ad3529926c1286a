// A backbone on the CPU.
//
// All cells are found before the first convolution, so all sizes are known. Levels lie in the lane's block `levels`;
// rules, features and the result in its block `sparse`, so later stages can use the lane's scratch.
#include "kernels/cpu/sparse/sparse.h"

#include <string.h>

#include "kernels/cpu/base/base.h"
#include "kernels/parallel_for.h"

enum { FUSED_STEPS = 512 };  // fused multiply-adds that count as one row for `stop`

struct sparse {
  struct vx_lane *lane;
  const struct vx_job *job;
  const struct vx_sparse *backbone;
  const struct vx_sparse_rows *rows;
  cpu_convolve *convolve;
  struct vx_sparse_result *result;
  struct vx_sparse_plan plan;
  struct cpu_level levels[VX_MAX_SPARSE_LEVELS];
  struct cpu_rules *rules;  // one for each block of the current layer
  // A layer reads `in` and writes `out`. `before` has the input of the layer before.
  float *in, *out, *before;
  int32_t *cells;  // of the last level
  const struct vx_sparse_layer *layer;
  const struct cpu_level *from, *to;
};

// ---- levels ---------------------------------------------------------------------------------------------------------

static void take_levels(struct sparse *sparse, struct cpu_arena *arena) {
  for (int32_t i = 0; i < sparse->plan.num_levels; i++)
    cpu_level_take(&sparse->levels[i], sparse->plan.shape[i], sparse->rows->num_clouds, arena);
}

// VX_REFUSED if the level has too many cells.
static enum vx_status find_level(struct sparse *sparse, int32_t number, const struct vx_sparse_layer *layer,
                                 struct error *error) {
  struct cpu_level *level = &sparse->levels[number];
  cpu_level_stride(level, level - 1, layer, sparse->job->stop);
  enum vx_status status = vx_stop_status(sparse->job->stop, error);
  if (status == VX_OK && level->num_rows > sparse->rows->max_rows)
    status = vx_sparse_refuse_rows(number, level->num_rows, sparse->rows->max_rows, error);
  return status;
}

static enum vx_status find_levels(struct sparse *sparse, struct error *error) {
  struct cpu_arena measured = {0};
  take_levels(sparse, &measured);
  enum vx_status status = cpu_arena_reserve(&sparse->lane->levels, &measured, sparse->job, error);
  if (status != VX_OK) return status;
  take_levels(sparse, &sparse->lane->levels);
  status = cpu_level_mark(&sparse->levels[0], sparse->rows, sparse->job->stop, error);
  for (int32_t i = 0, level = 0; status == VX_OK && i < sparse->backbone->num_layers; i++)
    if (sparse->plan.level[i] > level)
      status = find_level(sparse, level = sparse->plan.level[i], &sparse->backbone->layers[i], error);
  return status;
}

// ---- memory ---------------------------------------------------------------------------------------------------------

static int64_t blocks_of(const struct cpu_level *level) {
  return (level->num_rows + CPU_RULE_ROWS - 1) / CPU_RULE_ROWS;
}

static uint64_t most_values(const struct sparse *sparse) {
  uint64_t most = (uint64_t)sparse->levels[0].num_rows * (uint64_t)sparse->backbone->layers[0].inputs;
  for (int32_t i = 0; i < sparse->backbone->num_layers; i++) {
    uint64_t values =
        (uint64_t)sparse->levels[sparse->plan.level[i]].num_rows * (uint64_t)sparse->backbone->layers[i].width;
    most = values > most ? values : most;
  }
  return most;
}

static void take_features(struct sparse *sparse, struct cpu_arena *arena) {
  uint64_t values = most_values(sparse), blocks = 0;
  for (int32_t i = 0; i < sparse->plan.num_levels; i++) {
    struct cpu_level *level = &sparse->levels[i];
    uint64_t needed = (uint64_t)blocks_of(level);
    blocks = needed > blocks ? needed : blocks;
    level->x = cpu_arena_take(arena, (uint64_t)level->num_rows, sizeof *level->x);
  }
  const struct cpu_level *last = &sparse->levels[sparse->plan.num_levels - 1];
  sparse->cells = cpu_arena_take(arena, (uint64_t)last->num_rows, 4 * sizeof *sparse->cells);
  sparse->rules = cpu_arena_take(arena, blocks, sizeof *sparse->rules);
  sparse->in = cpu_arena_take(arena, values, sizeof *sparse->in);
  sparse->out = cpu_arena_take(arena, values, sizeof *sparse->out);
  sparse->before = cpu_arena_take(arena, values, sizeof *sparse->before);
}

static enum vx_status prepare(struct sparse *sparse, struct error *error) {
  struct cpu_arena measured = {0};
  take_features(sparse, &measured);
  enum vx_status status = cpu_arena_reserve(&sparse->lane->sparse, &measured, sparse->job, error);
  if (status != VX_OK) return status;
  cpu_arena_fill(&sparse->lane->sparse);
  take_features(sparse, &sparse->lane->sparse);
  for (int32_t i = 0; i < sparse->plan.num_levels; i++) cpu_level_list(&sparse->levels[i], sparse->job->stop);
  cpu_level_cells(&sparse->levels[sparse->plan.num_levels - 1], sparse->job->stop, sparse->cells);
  cpu_level_sort(&sparse->levels[0], sparse->rows, sparse->backbone->layers[0].inputs, sparse->job->stop, sparse->in);
  return vx_stop_status(sparse->job->stop, error);
}

// ---- layers ---------------------------------------------------------------------------------------------------------

static int64_t rows_of_block(const struct sparse *sparse, int32_t block) {
  int64_t left = sparse->to->num_rows - (int64_t)block * CPU_RULE_ROWS;
  return left < CPU_RULE_ROWS ? left : CPU_RULE_ROWS;
}

static enum vx_status fill_rules(void *ctx, const struct vx_worker *worker, int32_t block, struct error *error) {
  const struct sparse *sparse = ctx;
  (void)worker, (void)error;
  cpu_rules_fill(sparse->from, sparse->to, sparse->layer, (int64_t)block * CPU_RULE_ROWS, rows_of_block(sparse, block),
                 &sparse->rules[block]);
  return VX_OK;
}

static void begin_sums(const struct vx_sparse_layer *layer, float *out, int64_t rows) {
  for (int64_t row = 0; row < rows; row++)
    memcpy(out + row * layer->width, layer->bias, (size_t)layer->width * sizeof *out);
}

// No product is added here, so the compiler has nothing to fuse.
static void end_sums(float *out, const float *added, int64_t values) {
  for (int64_t i = 0; added && i < values; i++) out[i] = out[i] + added[i];
  for (int64_t i = 0; i < values; i++) out[i] = out[i] > 0 ? out[i] : 0;
}

static enum vx_status convolve_block(void *ctx, const struct vx_worker *worker, int32_t block, struct error *error) {
  const struct sparse *sparse = ctx;
  const struct vx_sparse_layer *layer = sparse->layer;
  const struct cpu_rules *rules = &sparse->rules[block];
  int64_t rows = rows_of_block(sparse, block), begin = (int64_t)block * CPU_RULE_ROWS * layer->width;
  float *out = sparse->out + begin;
  begin_sums(layer, out, rows);
  for (int32_t k = 0; k < vx_sparse_offsets(layer); k++) {
    const float *weight = layer->weight + (int64_t)k * layer->inputs * layer->width;
    int64_t steps = (int64_t)rules->count[k] * layer->inputs * layer->width;
    if (vx_stopped(worker->stop, steps / FUSED_STEPS)) return vx_stop_status(worker->stop, error);
    sparse->convolve(&(struct cpu_pairs){rules->input[k], rules->row[k], rules->count[k], sparse->in, weight,
                                         layer->inputs, layer->width, out});
  }
  end_sums(out, layer->adds ? sparse->before + begin : NULL, rows * layer->width);
  return VX_OK;
}

static enum vx_status run_tasks(struct sparse *sparse, int64_t count,
                                enum vx_status (*run)(void *, const struct vx_worker *, int32_t, struct error *),
                                struct error *error) {
  const struct vx_tasks tasks = {(int32_t)count, run, sparse};
  return vx_parallel_for(sparse->job, sparse->lane, &tasks, error);
}

static bool keeps_rules(const struct sparse *sparse, const struct vx_sparse_layer *layer) {
  return sparse->layer && sparse->layer->submanifold && layer->submanifold &&
         memcmp(layer->kernel, sparse->layer->kernel, sizeof layer->kernel) == 0;
}

static enum vx_status run_layer(struct sparse *sparse, int32_t number, struct error *error) {
  const struct vx_sparse_layer *layer = &sparse->backbone->layers[number];
  bool keeps = keeps_rules(sparse, layer);
  enum vx_status status = VX_OK;
  sparse->layer = layer;
  sparse->to = &sparse->levels[sparse->plan.level[number]];
  sparse->from = layer->submanifold ? sparse->to : sparse->to - 1;
  int64_t blocks = blocks_of(sparse->to);
  if (!keeps) status = run_tasks(sparse, blocks, fill_rules, error);
  if (status == VX_OK) status = run_tasks(sparse, blocks, convolve_block, error);
  float *free = sparse->before;
  sparse->before = sparse->in;
  sparse->in = sparse->out;
  sparse->out = free;
  return status;
}

// ---- the map --------------------------------------------------------------------------------------------------------

static enum vx_status fill_lines(void *ctx, const struct vx_worker *worker, int32_t task, struct error *error) {
  const struct sparse *sparse = ctx;
  const struct cpu_level *level = sparse->to;
  int64_t values = (int64_t)sparse->plan.width * level->shape[0] * level->shape[2];
  if (vx_stopped(worker->stop, values / FUSED_STEPS)) return vx_stop_status(worker->stop, error);
  cpu_sparse_fill_lines(level, sparse->in, sparse->plan.width, task / level->shape[1], task % level->shape[1],
                        sparse->result->map);
  return VX_OK;
}

static enum vx_status finish(struct sparse *sparse, struct error *error) {
  struct vx_sparse_result *result = sparse->result;
  result->coords = sparse->cells;
  result->features = sparse->in;
  return result->map ? run_tasks(sparse, (int64_t)sparse->rows->num_clouds * sparse->to->shape[1], fill_lines, error)
                     : VX_OK;
}

enum vx_status cpu_sparse(struct vx_lane *lane, const struct vx_job *job, const struct vx_sparse *backbone,
                          const struct vx_sparse_rows *rows, cpu_convolve *convolve, struct vx_sparse_result *result,
                          struct error *error) {
  struct sparse sparse = {lane, job, backbone, rows, convolve, .result = result};
  enum vx_status status = vx_sparse_plan_of(backbone, &sparse.plan, error);
  if (status == VX_OK) status = vx_sparse_rows_fit(&sparse.plan, rows, error);
  if (status == VX_OK) status = find_levels(&sparse, error);
  for (int32_t i = 0; i < sparse.plan.num_levels; i++) result->level_rows[i] = sparse.levels[i].num_rows;
  if (status == VX_OK) status = prepare(&sparse, error);
  for (int32_t i = 0; status == VX_OK && i < backbone->num_layers; i++) status = run_layer(&sparse, i, error);
  return status == VX_OK ? finish(&sparse, error) : status;
}
