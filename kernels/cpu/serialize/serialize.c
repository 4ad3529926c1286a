// Serialize on the CPU.
//
// A level is the rows that the chain left, or that a stage of pooling made. A task (parallel_for.h) has one curve of a
// level. The sizes of all levels follow from the first curve's sorted codes, so the output is taken before pooling.
#include "kernels/cpu/serialize/serialize.h"

#include <string.h>

#include "kernels/cpu/base/base.h"
#include "kernels/grid.h"
#include "kernels/ops.h"
#include "kernels/parallel_for.h"

// The arrays have room for `most` rows (struct serialize).
struct level {
  int32_t rows, depth;
  int32_t *grid;              // [rows, 3]
  int64_t *codes[VX_CURVES];  // [rows] each
  int32_t *order[VX_CURVES], *inverse[VX_CURVES];
};

struct serialize {
  struct vx_lane *lane;
  struct vx_job *job;
  const struct vx_serialize *params;
  struct level levels[2];  // current and next, in turn
  struct level *level;
  struct cpu_keyed *items[VX_CURVES], *spare[VX_CURVES];
  int32_t *cluster, *indices, *indptr, *heads;  // of a stage
  int32_t most;                                 // rows of level 0
  int cloud_bits;
  struct vx_layout layout;
  unsigned char *output;
  int64_t rows_done, inputs_done;  // of the stages done: their rows, and the rows that they joined
};

// ---- memory ---------------------------------------------------------------------------------------------------------

static void lay_out_level(const struct serialize *own, struct level *level, struct cpu_arena *arena) {
  uint64_t rows = (uint64_t)own->most;
  level->grid = cpu_arena_take(arena, rows, 3 * sizeof *level->grid);
  for (int32_t k = 0; k < own->params->num_orders; k++) {
    level->codes[k] = cpu_arena_take(arena, rows, sizeof *level->codes[k]);
    level->order[k] = cpu_arena_take(arena, rows, sizeof *level->order[k]);
    level->inverse[k] = cpu_arena_take(arena, rows, sizeof *level->inverse[k]);
  }
}

static void lay_out(struct serialize *own, struct cpu_arena *arena) {
  uint64_t rows = (uint64_t)own->most;
  bool pools = own->params->num_pools > 0;
  lay_out_level(own, &own->levels[0], arena);
  for (int32_t k = 0; k < own->params->num_orders; k++) {
    own->items[k] = cpu_arena_take(arena, rows, sizeof *own->items[k]);
    own->spare[k] = cpu_arena_take(arena, rows, sizeof *own->spare[k]);
  }
  if (!pools) return;
  lay_out_level(own, &own->levels[1], arena);
  own->cluster = cpu_arena_take(arena, rows, sizeof *own->cluster);
  own->indices = cpu_arena_take(arena, rows, sizeof *own->indices);
  own->indptr = cpu_arena_take(arena, rows + 1, sizeof *own->indptr);
  own->heads = cpu_arena_take(arena, rows, sizeof *own->heads);
}

static enum vx_status take_scratch(struct serialize *own, struct error *error) {
  struct cpu_arena measured = {0};
  lay_out(own, &measured);
  enum vx_status status = cpu_arena_reserve(&own->lane->scratch, &measured, own->job, error);
  if (status == VX_OK) lay_out(own, &own->lane->scratch);
  return status;
}

// ---- cells ----------------------------------------------------------------------------------------------------------

// Finds the cells of a cloud's rows, without dropped rows, whose x is NaN. Returns where the next cloud's cells go.
static int32_t *find_cells(const struct serialize *own, const struct vx_serial_lattice *lattice, int64_t begin,
                           int32_t count, int32_t *to) {
  const struct vx_input *points = &own->lane->points;
  const struct vx_serial_lattice cells = *lattice;
  const float *rows = points->data;
  int64_t columns = points->dims[1];
  VX_EACH_ROW(own->job->stop, i, begin, begin + count) {
    const float *row = rows + i * columns;
    if (row[0] != row[0]) continue;
    (void)vx_serial_cell(&cells, row, to);
    to += 3;
  }
  return to;
}

static void subtract_least(const struct serialize *own, int32_t *cells, const int32_t *end) {
  int32_t least[3] = {INT32_MAX, INT32_MAX, INT32_MAX};
  int64_t rows = (end - cells) / 3;
  VX_EACH_ROW(own->job->stop, i, 0, rows)
    for (int axis = 0; axis < 3; axis++)
      least[axis] = cells[3 * i + axis] < least[axis] ? cells[3 * i + axis] : least[axis];
  VX_EACH_ROW(own->job->stop, i, 0, rows)
    for (int axis = 0; axis < 3; axis++) cells[3 * i + axis] -= least[axis];
}

static int32_t find_grid(const struct serialize *own) {
  struct vx_serial_lattice lattice;
  int32_t *to = own->level->grid, most = 0;
  int64_t begin = 0;
  (void)vx_serial_lattice_of(own->params, &lattice);  // the job was checked
  for (int32_t cloud = 0; cloud < own->job->num_clouds; cloud++) {
    int32_t *end = find_cells(own, &lattice, begin, own->job->point_counts[cloud], to);
    if (!own->params->fixed) subtract_least(own, to, end);
    begin += own->job->point_counts[cloud];
    to = end;
  }
  VX_EACH_ROW(own->job->stop, i, 0, 3 * (int64_t)own->most)
    most = own->level->grid[i] > most ? own->level->grid[i] : most;
  return most;
}

// ---- codes ----------------------------------------------------------------------------------------------------------

// Makes the codes of rows `first` to `first + count - 1`. `*cloud`: the cloud of row `first`, or an earlier one.
// `*end`: where the rows of `*cloud` end. Both advance.
static void put_codes(const struct serialize *own, const uint64_t *keys, int32_t first, int32_t count, int32_t *cloud,
                      int32_t *end, int64_t *codes) {
  for (int32_t i = 0; i < count; i++) {
    while (first + i >= *end) *end += own->job->row_counts[++*cloud];
    codes[first + i] = (int64_t)((uint64_t)*cloud << 3 * own->level->depth | keys[i]);
  }
}

static enum vx_status make_codes(void *ctx, const struct vx_worker *worker, int32_t k, struct error *error) {
  const struct serialize *own = ctx;
  const struct level *level = own->level;
  int32_t cloud = 0, end = own->job->row_counts[0];
  uint64_t keys[CPU_KEYS];
  for (int32_t first = 0; first < level->rows && !vx_stopped(worker->stop, INT64_C(8) * CPU_KEYS); first += CPU_KEYS) {
    int32_t count = level->rows - first < CPU_KEYS ? level->rows - first : CPU_KEYS;
    cpu_find_keys(own->params->orders[k], level->depth, level->grid + 3 * (int64_t)first, count, keys);
    put_codes(own, keys, first, count, &cloud, &end, level->codes[k]);
  }
  return vx_stop_status(worker->stop, error);
}

// ---- orders ---------------------------------------------------------------------------------------------------------

// A word is a code with its row in the lowest bits.
static enum vx_status sort_words(const struct serialize *own, const struct vx_worker *worker, int32_t k, int key_bits,
                                 int row_bits, struct error *error) {
  const struct level *level = own->level;
  int32_t *order = level->order[k], *inverse = level->inverse[k];
  uint64_t *words = (uint64_t *)own->items[k], *spare = (uint64_t *)own->spare[k];
  VX_EACH_ROW(worker->stop, i, 0, level->rows) words[i] = (uint64_t)level->codes[k][i] << row_bits | (uint64_t)i;
  words = cpu_sort_words(worker->stop, words, spare, level->rows, row_bits, key_bits);
  enum vx_status status = vx_stop_status(worker->stop, error);
  for (int32_t i = 0; i < level->rows && status == VX_OK; i++) {
    int32_t row = (int32_t)(words[i] & ((UINT64_C(1) << row_bits) - 1));
    order[i] = row;
    inverse[row] = i;
  }
  return status;
}

static enum vx_status sort_codes(void *ctx, const struct vx_worker *worker, int32_t k, struct error *error) {
  const struct serialize *own = ctx;
  const struct level *level = own->level;
  int key_bits = 3 * level->depth + own->cloud_bits, row_bits = vx_bits_for(level->rows);
  if (key_bits + row_bits <= 64) return sort_words(own, worker, k, key_bits, row_bits, error);
  struct cpu_keyed *items = own->items[k];
  VX_EACH_ROW(worker->stop, i, 0, level->rows) items[i] = (struct cpu_keyed){(uint64_t)level->codes[k][i], (int32_t)i};
  items = cpu_sort(worker->stop, items, own->spare[k], level->rows, key_bits);
  enum vx_status status = vx_stop_status(worker->stop, error);
  for (int32_t i = 0; i < level->rows && status == VX_OK; i++) {
    level->order[k][i] = items[i].number;
    level->inverse[k][items[i].number] = i;
  }
  return status;
}

static enum vx_status for_curves(struct serialize *own,
                                 enum vx_status (*run)(void *ctx, const struct vx_worker *worker, int32_t task,
                                                       struct error *error),
                                 struct error *error) {
  const struct vx_tasks tasks = {own->params->num_orders, run, own};
  return vx_parallel_for(own->job, own->lane, &tasks, error);
}

static void count_pools(const struct serialize *own) {
  const struct level *level = own->level;
  int32_t depth = level->depth;
  int shift = 0;
  for (int32_t stage = 0; stage < own->params->num_pools; stage++) {
    int32_t bits = vx_pool_bits(own->params, stage, depth);
    int64_t before = -1, count = 0;
    depth -= bits;
    shift += 3 * bits;
    VX_EACH_ROW(own->job->stop, i, 0, level->rows) {
      int64_t code = level->codes[0][level->order[0][i]] >> shift;
      count += code != before;
      before = code;
    }
    own->job->counts.level_rows[stage] = count;
  }
}

// ---- pooling --------------------------------------------------------------------------------------------------------

// Numbers the new rows along the first curve, and lists the old rows that each joins, in ascending order. The first of
// these is the head.
static int32_t find_clusters(const struct serialize *own, int shift) {
  const struct level *level = own->level;
  int64_t before = -1;
  int32_t clusters = 0;
  VX_EACH_ROW(own->job->stop, i, 0, level->rows) {
    int32_t row = level->order[0][i];
    int64_t code = level->codes[0][row] >> shift;
    if (code != before) own->indptr[clusters++] = (int32_t)i;
    before = code;
    own->cluster[row] = clusters - 1;
  }
  own->indptr[clusters] = level->rows;
  memcpy(own->heads, own->indptr, (size_t)clusters * sizeof *own->heads);  // for now: where the next old row goes
  VX_EACH_ROW(own->job->stop, row, 0, level->rows) own->indices[own->heads[own->cluster[row]]++] = (int32_t)row;
  VX_EACH_ROW(own->job->stop, i, 0, clusters) own->heads[i] = own->indices[own->indptr[i]];
  return clusters;
}

// A new row gets the cell and the codes of its head, without their lowest bits.
static void make_level(struct serialize *own, int32_t bits, int32_t rows) {
  const struct level *from = own->level;
  struct level *to = &own->levels[from == &own->levels[0]];
  to->rows = rows;
  to->depth = from->depth - bits;
  VX_EACH_ROW(own->job->stop, i, 0, rows)
    for (int axis = 0; axis < 3; axis++) to->grid[3 * i + axis] = from->grid[3 * (int64_t)own->heads[i] + axis] >> bits;
  for (int32_t k = 0; k < own->params->num_orders; k++)
    VX_EACH_ROW(own->job->stop, i, 0, rows) to->codes[k][i] = from->codes[k][own->heads[i]] >> 3 * bits;
  own->level = to;
}

// ---- tensors --------------------------------------------------------------------------------------------------------

// Writes values `at` to `at + count - 1` of a tensor, if requested.
static void put(const struct serialize *own, enum vx_tensor tensor, int64_t at, const void *values, int64_t count) {
  if ((own->layout.tensors & VX_TENSOR_BIT(tensor)) == 0) return;
  size_t size = vx_dtype_size(own->layout.shape[tensor].dtype);
  vx_copy(own->job->stop, own->output + own->layout.offset[tensor] + (size_t)at * size, values, (size_t)count * size);
}

// Writes `grid`, `code` and the two tensors that follow `code`, for the current level. In all but `grid` a curve has
// `width` values, and those of the level begin at `at`.
static void put_level(const struct serialize *own, enum vx_tensor grid, enum vx_tensor code, int64_t width,
                      int64_t at) {
  const struct level *level = own->level;
  put(own, grid, 3 * at, level->grid, 3 * (int64_t)level->rows);
  for (int32_t k = 0; k < own->params->num_orders; k++) {
    put(own, code, k * width + at, level->codes[k], level->rows);
    put(own, (enum vx_tensor)(code + 1), k * width + at, level->order[k], level->rows);
    put(own, (enum vx_tensor)(code + 2), k * width + at, level->inverse[k], level->rows);
  }
}

static enum vx_status run_stage(struct serialize *own, int32_t stage, int64_t pooled, struct error *error) {
  int32_t bits = vx_pool_bits(own->params, stage, own->level->depth), before = own->level->rows;
  int32_t rows = find_clusters(own, 3 * bits);
  put(own, VX_POOL_CLUSTER, own->inputs_done, own->cluster, before);
  put(own, VX_POOL_INDICES, own->inputs_done, own->indices, before);
  put(own, VX_POOL_INDPTR, own->rows_done + stage, own->indptr, (int64_t)rows + 1);
  put(own, VX_POOL_HEAD_INDICES, own->rows_done, own->heads, rows);
  make_level(own, bits, rows);
  enum vx_status status = for_curves(own, sort_codes, error);
  if (status == VX_OK) put_level(own, VX_POOL_GRID_COORD, VX_POOL_SERIALIZED_CODE, pooled, own->rows_done);
  own->inputs_done += before;
  own->rows_done += rows;
  return status == VX_OK ? vx_stop_status(own->job->stop, error) : status;
}

static enum vx_status write_tensors(struct serialize *own, struct error *error) {
  void *output;
  enum vx_status status = vx_take_output(own->job, &own->layout, &output, error);
  if (status != VX_OK) return status;
  own->output = output;
  put_level(own, VX_GRID_COORD, VX_SERIALIZED_CODE, own->most, 0);
  struct vx_sizes sizes = vx_sizes_of(own->job);
  bool pools = (own->job->tensors & VX_POOL_TENSORS) != 0;
  for (int32_t stage = 0; stage < own->params->num_pools && pools && status == VX_OK; stage++)
    status = run_stage(own, stage, sizes.pooled, error);
  return status == VX_OK ? vx_stop_status(own->job->stop, error) : status;
}

// ---- all of it ------------------------------------------------------------------------------------------------------

static void count_fates(struct vx_job *job) {
  const struct vx_chain_report *report = job->report;
  job->counts.kept = report->left;
  job->counts.out_of_lattice = report->fates[0][VX_FATE_OUT_OF_LATTICE];
  job->counts.not_finite = job->counts.received - job->counts.kept - job->counts.out_of_lattice;
}

static enum vx_status order_points(struct serialize *own, struct error *error) {
  enum vx_status status = take_scratch(own, error);
  if (status != VX_OK) return status;
  int32_t most = find_grid(own);
  status = vx_stop_status(own->job->stop, error);
  if (status == VX_OK) status = vx_serial_depth(own->params, most, &own->level->depth, error);
  if (status == VX_OK) own->job->counts.depth = own->level->depth;
  if (status == VX_OK) status = for_curves(own, make_codes, error);
  if (status == VX_OK) status = for_curves(own, sort_codes, error);
  if (status == VX_OK) count_pools(own);
  return status == VX_OK ? vx_stop_status(own->job->stop, error) : status;
}

enum vx_status cpu_serialize(struct vx_lane *lane, struct vx_job *job, struct error *error) {
  struct serialize own = {.lane = lane, .job = job, .params = &job->params.serialize};
  int64_t began = clock_ns();
  own.most = (int32_t)job->report->left;
  own.cloud_bits = job->num_clouds > 1 ? vx_bits_for(job->num_clouds) : 0;
  own.level = &own.levels[0];
  own.level->rows = own.most;
  count_fates(job);
  enum vx_status status = order_points(&own, error);
  if (status == VX_OK && job->tensors != 0) status = write_tensors(&own, error);
  job->stage_ns[VX_STAGE_SERIALIZE] = clock_ns() - began;
  return status;
}
