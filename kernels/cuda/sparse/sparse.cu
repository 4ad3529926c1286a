// A backbone on a GPU.
//
// The numbers of rows stay on the device. A lane has room for the rows of its last runs, and an eighth more. So the
// host enqueues everything at once, then waits for the numbers, which the device publishes before the first layer. If a
// level has more rows than room, usually in a lane's first run, the device computes nothing; the host makes room and
// begins again.
#include "kernels/cuda/sparse/sparse.cuh"

#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/base/host.cuh"

// The arguments of all kernels. They are the same in all runs of a backbone with equal room, since the kernels find the
// input through `input`.
struct sparse_work {
  struct vx_sparse backbone;
  bool half;
  float *map;
  struct vx_sparse_plan plan;
  struct cuda_sparse_input *input;
  struct sparse_levels all;
  struct sparse_found *found;
  struct sparse_tables tables;
  struct sparse_packing packing;
  int32_t table[VX_MAX_SPARSE_LAYERS];  // of each layer
  // Layer i reads features[i % 2], and writes features[(i + 1) % 2] over the input of layer i - 1. If it adds this
  // input, each thread adds a value before it overwrites it. features[2]: see output_of.
  float *features[3];
};

// A graph launches all kernels of a run at once. It is made only if a run's work equals, byte by byte, the work of the
// run before: for alternating works, graphs would not pay.
struct cuda_sparse_kept {
  struct sparse_work work;              // of the lane's last run
  uint32_t room[VX_MAX_SPARSE_LEVELS];  // rows
  cudaGraphExec_t graph;                // NULL: none yet
  bool no_graph;                        // none can be made of the work
};

struct sparse : sparse_work {
  struct cuda_run run;
  const struct vx_sparse_rows *rows;
};

// ---- plans ----------------------------------------------------------------------------------------------------------

static struct sparse_window window_of(const struct sparse *sparse, int32_t number) {
  const struct vx_sparse_layer *layer = &sparse->backbone.layers[number];
  struct sparse_window window = {};
  int32_t to = sparse->plan.level[number];
  for (int axis = 0; axis < 3; axis++) {
    window.kernel[axis] = (int8_t)layer->kernel[axis];
    window.stride[axis] = (int8_t)vx_sparse_stride(layer, axis);
    window.padding[axis] = (int8_t)vx_sparse_padding(layer, axis);
  }
  window.from = (int8_t)(layer->submanifold ? to : to - 1);
  window.to = (int8_t)to;
  return window;
}

// Whether the layer has the same neighbours as the layer before.
static bool keeps_table(const struct vx_sparse *backbone, int32_t number) {
  const struct vx_sparse_layer *layer = &backbone->layers[number];
  return number > 0 && layer->submanifold && layer[-1].submanifold &&
         memcmp(layer->kernel, layer[-1].kernel, sizeof layer->kernel) == 0;
}

static void plan_tables(struct sparse *sparse) {
  struct sparse_tables *tables = &sparse->tables;
  for (int32_t i = 0; i < sparse->backbone.num_layers; i++) {
    if (!keeps_table(&sparse->backbone, i)) tables->windows[tables->count++] = window_of(sparse, i);
    sparse->table[i] = tables->count - 1;
  }
}

// Cannot overflow: a layer has at most 27 * 128 * 128 weights.
static void plan_packing(struct sparse *sparse) {
  struct sparse_packing *packing = &sparse->packing;
  uint32_t first = 0;
  packing->count = sparse->half ? sparse->backbone.num_layers : 0;
  for (int32_t i = 0; i < packing->count; i++) {
    const struct vx_sparse_layer *layer = &sparse->backbone.layers[i];
    packing->layers[i] = {layer->weight, NULL, layer->inputs, layer->width};
    packing->first[i] = first;
    first += (uint32_t)(vx_sparse_offsets(layer) * sparse_packed_inputs(layer->inputs) * layer->width / 8);
  }
  packing->first[packing->count] = first;
}

// ---- memory ---------------------------------------------------------------------------------------------------------

static void plan_levels(struct sparse *sparse) {
  uint32_t first = 0;
  for (int32_t i = 0; i < sparse->plan.num_levels; i++) {
    struct sparse_level *level = &sparse->all.levels[i];
    const int32_t *shape = sparse->plan.shape[i];
    memcpy(level->shape, shape, sizeof level->shape);
    level->clouds = sparse->rows->num_clouds;
    level->words = (shape[2] + 2 + 31) / 32;
    level->all_words = (uint64_t)level->clouds * shape[0] * shape[1] * level->words;
    sparse->all.first[i] = first;
    first += (uint32_t)sparse_word_blocks(*level);
  }
  sparse->all.count = sparse->plan.num_levels;
  sparse->all.first[sparse->all.count] = first;
}

// `found`, the classes of rows, the sums and the bitmap of level 0 are adjacent, since they are cleared together.
static void take_levels(struct sparse *sparse, struct cuda_arena *arena) {
  take(arena, &sparse->input, 1);
  take(arena, &sparse->found, 1);
  take(arena, &sparse->tables.classes, sparse->tables.count);
  take(arena, &sparse->all.sums, (uint64_t)sparse->all.first[sparse->all.count] + 1);
  for (int32_t i = 0; i < sparse->plan.num_levels; i++) {
    struct sparse_level *level = &sparse->all.levels[i];
    take(arena, &level->bits, level->all_words + 1);
    take(arena, &level->ranks, level->all_words);
    level->num_rows = &sparse->found->rows[i];
  }
  for (int32_t i = 0; i < sparse->packing.count; i++)
    take(arena, &sparse->packing.layers[i].packed, sparse->packing.first[i + 1] - sparse->packing.first[i]);
}

// The rows of the first layer's input begin at multiples of 16 bytes.
static int32_t first_pitch(const struct sparse *sparse) {
  int32_t inputs = sparse->backbone.layers[0].inputs;
  return sparse->half ? sparse_packed_inputs(inputs) : (inputs + 3) / 4 * 4;
}

// Returns false if the tables have too many rows.
static bool plan_rows(struct sparse *sparse) {
  struct sparse_tables *tables = &sparse->tables;
  uint64_t rows = 0;
  for (int32_t i = 0; i < tables->count; i++) {
    tables->first[i] = (uint32_t)rows;
    rows += ((uint64_t)sparse->all.levels[tables->windows[i].to].room + SPARSE_BLOCK - 1) / SPARSE_BLOCK * SPARSE_BLOCK;
  }
  tables->first[tables->count] = (uint32_t)rows;
  return rows <= UINT32_MAX;
}

// The index of the features that a layer writes. A last layer that adds float16 and writes float32 needs an array of
// its own: it would write over values that other threads have not added yet.
static int32_t output_of(const struct sparse *sparse, int32_t number) {
  bool is_last = number + 1 == sparse->backbone.num_layers;
  return sparse->half && is_last && sparse->backbone.layers[number].adds ? 2 : (number + 1) % 2;
}

static float *last_features(const struct sparse *sparse) {
  return sparse->features[output_of(sparse, sparse->backbone.num_layers - 1)];
}

static void take_features(struct sparse *sparse, struct cuda_arena *arena) {
  struct sparse_tables *tables = &sparse->tables;
  uint64_t rows = tables->first[tables->count], tiles = rows / SPARSE_TILE;
  uint64_t each = sparse->half ? 2 : 1;  // values in the room of a float
  uint64_t values = (uint64_t)sparse->all.levels[0].room * first_pitch(sparse) / each;
  for (int32_t i = 0; i < sparse->plan.num_levels; i++)
    take(arena, &sparse->all.levels[i].cells, sparse->all.levels[i].room);
  for (int32_t i = 0; i < sparse->backbone.num_layers; i++) {
    uint64_t here = (uint64_t)sparse->all.levels[sparse->plan.level[i]].room * sparse->backbone.layers[i].width /
                    (i + 1 < sparse->backbone.num_layers ? each : 1);
    values = here > values ? here : values;
  }
  take(arena, &tables->masks, rows);
  take(arena, &tables->members, rows);
  take(arena, &tables->order, rows);
  take(arena, &tables->tiles, tiles);
  take(arena, &tables->turns, tiles);
  take(arena, &tables->inputs, tiles * VX_MAX_SPARSE_OFFSETS * SPARSE_TILE);
  int32_t last = output_of(sparse, sparse->backbone.num_layers - 1);
  for (int32_t i = 0; i <= max(last, 1); i++) take(arena, &sparse->features[i], values);
}

// Makes room for this many rows of a level, and some more for similar clouds. Gives up room if an eighth of it would
// do, since kernels start blocks for all of it. Returns whether the rows fit before.
static bool make_room(uint32_t *room, int64_t rows) {
  uint32_t wanted = (uint32_t)max(rows + rows / 8, (int64_t)SPARSE_BLOCK);
  bool fits = rows <= *room;
  if (!fits || wanted < *room / 8) *room = wanted;
  return fits;
}

// Begins with the room of the lane's last run, in proportion to the number of clouds.
static void begin_room(struct sparse *sparse) {
  struct cuda_sparse_kept *kept = sparse->run.lane->sparse_kept;
  int64_t before = kept->work.all.levels[0].clouds, clouds = sparse->rows->num_clouds;
  for (int32_t i = 0; i < VX_MAX_SPARSE_LEVELS; i++) {
    int64_t room = before == 0 ? 0 : kept->room[i] * clouds / before;
    kept->room[i] = (uint32_t)max((int64_t)SPARSE_BLOCK, min(room, VX_MAX_SPARSE_ROWS));
  }
  (void)make_room(&kept->room[0], sparse->rows->num_rows);
}

static enum vx_status prepare(struct sparse *sparse, struct error *error) {
  struct vx_lane *lane = sparse->run.lane;
  struct cuda_arena levels = {}, features = {};
  for (int32_t i = 0; i < sparse->plan.num_levels; i++)
    sparse->all.levels[i].room = (uint32_t)min((int64_t)lane->sparse_kept->room[i], sparse->rows->max_rows);
  if (!plan_rows(sparse)) return vx_refuse(error, "the levels of the backbone have too many rows");
  take_levels(sparse, &levels);
  take_features(sparse, &features);
  CUDA_TRY(cuda_reserve_exactly(lane, &lane->levels, levels.used, error));
  CUDA_TRY(cuda_reserve_exactly(lane, &lane->sparse, features.used, error));
  levels = {lane->levels.memory, 0};
  features = {lane->sparse.memory, 0};
  take_levels(sparse, &levels);
  take_features(sparse, &features);
  return VX_OK;
}

// ---- work -----------------------------------------------------------------------------------------------------------

static volatile struct sparse_found *published(const struct sparse *sparse) {
  static_assert(sizeof(struct sparse_found) <= sizeof sparse->run.lane->status->sparse, "the host has room");
  return (volatile struct sparse_found *)sparse->run.lane->status->sparse;
}

static enum vx_status enqueue_levels(struct sparse *sparse, struct error *error) {
  const struct cuda_run *run = &sparse->run;
  const struct sparse_levels &all = sparse->all;
  size_t cleared = (size_t)((unsigned char *)all.levels[0].ranks - (unsigned char *)sparse->found);
  CUDA_TRY(sparse_clear(run, sparse->found, cleared / sizeof(uint4), sparse->input, error));
  CUDA_TRY(sparse_mark(run, all, sparse->input, sparse->found, error));
  for (int32_t i = 0, level = 0; i < sparse->backbone.num_layers; i++) {
    if (sparse->plan.level[i] == level) continue;
    level = sparse->plan.level[i];
    CUDA_TRY(sparse_stride(run, all, window_of(sparse, i), error));
  }
  CUDA_TRY(sparse_count(run, all, sparse->found, error));
  return sparse_number(run, all, sparse->found, (struct sparse_found *)run->lane->status_on_device->sparse, error);
}

static struct sparse_table table_of(const struct sparse *sparse, int32_t number) {
  const struct sparse_tables *tables = &sparse->tables;
  const uint32_t *first = &tables->first[sparse->table[number]];
  uint32_t tile = first[0] / SPARSE_TILE;
  return {tables->order + first[0], tables->turns + tile,
          tables->inputs + (uint64_t)tile * VX_MAX_SPARSE_OFFSETS * SPARSE_TILE, (first[1] - first[0]) / SPARSE_TILE};
}

// How many words of the map, of 16 bytes each, the layers before `layer` clear.
static uint64_t map_words(const struct sparse *sparse, int32_t layer) {
  uint64_t values = sparse->map ? (uint64_t)vx_sparse_map_values(&sparse->plan, sparse->rows->num_clouds) : 0;
  return values / 4 * layer / sparse->backbone.num_layers;
}

static enum vx_status enqueue_layer(const struct sparse *sparse, int32_t number, struct error *error) {
  const struct vx_sparse_layer *layer = &sparse->backbone.layers[number];
  bool half = sparse->half;
  uint64_t first = map_words(sparse, number);
  struct sparse_layer view = {half ? (const float *)sparse->packing.layers[number].packed : layer->weight,
                              layer->bias,
                              sparse->features[number % 2],
                              layer->adds ? sparse->features[(number + 1) % 2] : NULL,
                              sparse->features[output_of(sparse, number)],
                              layer->inputs,
                              number == 0 ? first_pitch(sparse) : layer->inputs,
                              layer->width,
                              0,
                              number + 1 == sparse->backbone.num_layers,
                              (uint4 *)sparse->map + first,
                              map_words(sparse, number + 1) - first,
                              0};
  return (half ? sparse_convolve_half : sparse_convolve)(&sparse->run, table_of(sparse, number), view, error);
}

static enum vx_status enqueue(struct sparse *sparse, struct error *error) {
  const struct cuda_run *run = &sparse->run;
  int32_t layers = sparse->backbone.num_layers, last = sparse->plan.num_levels - 1;
  CUDA_TRY(enqueue_levels(sparse, error));
  CUDA_TRY(sparse_fill_tables(run, sparse->all, sparse->tables, error));
  if (sparse->half) CUDA_TRY(sparse_pack(run, sparse->packing, error));
  CUDA_TRY(sparse_sort(run, sparse->all.levels[0], sparse->input, sparse->backbone.layers[0].inputs,
                       first_pitch(sparse), sparse->features[0], sparse->half, error));
  for (int32_t i = 0; i < layers; i++) CUDA_TRY(enqueue_layer(sparse, i, error));
  if (!sparse->map) return VX_OK;
  return sparse_fill_map(run, sparse->all.levels[last], last_features(sparse), sparse->plan.width, sparse->map, error);
}

// ---- graphs ---------------------------------------------------------------------------------------------------------

// Ends the capture even if something fails.
static enum vx_status capture(struct sparse *sparse, cudaGraph_t *graph, struct error *error) {
  cudaStream_t stream = sparse->run.stream;
  cudaError_t begun = cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
  enum vx_status status = cuda_check(begun, "cudaStreamBeginCapture", error);
  if (status == VX_OK) status = enqueue(sparse, error);
  cudaError_t ended = cudaStreamEndCapture(stream, graph);
  if (status == VX_OK) return cuda_check(ended, "cudaStreamEndCapture", error);
  (void)cudaGetLastError();  // resets the error of cudaStreamEndCapture
  return status;
}

static enum vx_status make_graph(struct sparse *sparse, cudaGraphExec_t *made, struct error *error) {
  cudaGraph_t graph = NULL;
  enum vx_status status = capture(sparse, &graph, error);
  if (status == VX_OK)
    status = cuda_check(cudaGraphInstantiateWithFlags(made, graph, 0), "cudaGraphInstantiateWithFlags", error);
  if (status != VX_OK) *made = NULL;
  if (graph) (void)cudaGraphDestroy(graph);
  return status;
}

// Waits for the stream, since the graph may still run.
static enum vx_status release_graph(struct vx_lane *lane, struct error *error) {
  cudaGraphExec_t graph = lane->sparse_kept->graph;
  lane->sparse_kept->graph = NULL;
  if (!graph) return VX_OK;
  cudaError_t ended = cudaStreamSynchronize(lane->stream);
  (void)cudaGraphExecDestroy(graph);
  return cuda_check(ended, "cudaStreamSynchronize", error);
}

// Makes a graph of the work, if one can be made. Only the loss of the device is an error.
static enum vx_status try_graph(struct sparse *sparse, struct error *error) {
  struct cuda_sparse_kept *kept = sparse->run.lane->sparse_kept;
  if (kept->graph || kept->no_graph) return VX_OK;
  enum vx_status status = make_graph(sparse, &kept->graph, error);
  kept->no_graph = status != VX_OK;
  return status == VX_DEVICE_LOST ? status : VX_OK;
}

// Enqueues the work: as a graph if it is the work of the last run, and a graph can be made of it.
static enum vx_status begin_work(struct sparse *sparse, struct error *error) {
  struct vx_lane *lane = sparse->run.lane;
  struct cuda_sparse_kept *kept = lane->sparse_kept;
  const struct sparse_work *work = sparse;
  published(sparse)->told = 0;
  lane->commands->sparse = {(const int4 *)sparse->rows->coords, sparse->rows->features,
                            (uint64_t)sparse->rows->num_rows};
  if (memcmp(&kept->work, work, sizeof *work) == 0) {
    CUDA_TRY(try_graph(sparse, error));
  } else {
    CUDA_TRY(release_graph(lane, error));
    memcpy(&kept->work, work, sizeof *work);
    kept->no_graph = !lane->device->graphs;
  }
  if (!kept->graph) return enqueue(sparse, error);
  CUDA_CALL(cudaGraphLaunch(kept->graph, lane->stream), error);
  return VX_OK;
}

// ---- numbers of rows ------------------------------------------------------------------------------------------------

// Copies the coordinates of the row from the device for the error.
static enum vx_status refuse_outside(const struct sparse *sparse, uint32_t row, struct error *error) {
  int32_t at[4];
  CUDA_CALL(
      cudaMemcpyAsync(at, sparse->rows->coords + 4 * (size_t)row, sizeof at, cudaMemcpyDefault, sparse->run.stream),
      error);
  CUDA_CALL(cudaStreamSynchronize(sparse->run.stream), error);
  return vx_sparse_refuse_outside(row, at, error);
}

static enum vx_status read_levels(const struct sparse *sparse, int64_t *level_rows, struct error *error) {
  const volatile struct sparse_found *found = published(sparse);
  CUDA_TRY(cuda_await(&sparse->run, &found->told, 1, error));
  if (found->outside != 0) return refuse_outside(sparse, UINT32_MAX - found->outside, error);
  if (found->repeated != 0) return vx_sparse_refuse_repeated(error);
  for (int32_t i = 0; i < sparse->plan.num_levels; i++) level_rows[i] = (int64_t)found->rows[i];
  for (int32_t i = 0; i < sparse->plan.num_levels; i++)
    if (level_rows[i] > sparse->rows->max_rows)
      return vx_sparse_refuse_rows(i, level_rows[i], sparse->rows->max_rows, error);
  return VX_OK;
}

// Enqueues everything, and waits for the numbers of rows. `complete`: all levels have room, so the device computes.
static enum vx_status attempt(struct sparse *sparse, struct vx_sparse_result *result, bool *complete,
                              struct error *error) {
  uint32_t *room = sparse->run.lane->sparse_kept->room;
  CUDA_TRY(prepare(sparse, error));
  CUDA_TRY(begin_work(sparse, error));
  CUDA_TRY(read_levels(sparse, result->level_rows, error));
  *complete = true;
  for (int32_t i = 0; i < sparse->plan.num_levels; i++)
    *complete = make_room(&room[i], result->level_rows[i]) && *complete;
  return VX_OK;
}

enum vx_status cuda_sparse(struct vx_lane *lane, const struct vx_sparse *backbone, const struct vx_sparse_rows *rows,
                           struct vx_sparse_result *result, struct error *error) {
  struct sparse sparse;
  memset(&sparse, 0, sizeof sparse);
  sparse.run.lane = lane;
  sparse.run.stream = lane->stream;
  memcpy(&sparse.backbone, backbone, sizeof *backbone);
  sparse.half = rows->half;
  sparse.map = result->map;
  sparse.rows = rows;
  if (!lane->sparse_kept) lane->sparse_kept = (struct cuda_sparse_kept *)calloc(1, sizeof *lane->sparse_kept);
  if (!lane->sparse_kept) return vx_fail(error, VX_OUT_OF_MEMORY, "no memory for a sparse convolution");
  CUDA_TRY(vx_sparse_plan_of(backbone, &sparse.plan, error));
  CUDA_TRY(vx_sparse_rows_fit(&sparse.plan, rows, error));
  plan_tables(&sparse);
  plan_packing(&sparse);
  plan_levels(&sparse);
  begin_room(&sparse);
  for (bool complete = false; !complete;) CUDA_TRY(attempt(&sparse, result, &complete, error));
  result->coords = (const int32_t *)sparse.all.levels[sparse.plan.num_levels - 1].cells;
  result->features = last_features(&sparse);
  return VX_OK;
}

void cuda_sparse_release(struct vx_lane *lane) {
  struct error unread;
  if (lane->sparse_kept) (void)release_graph(lane, &unread);
  free(lane->sparse_kept);
  lane->sparse_kept = NULL;
}

enum vx_status cuda_sparse_wait(struct vx_lane *lane, struct error *error) {
  cudaError_t result = cudaErrorNotReady;
  while (result == cudaErrorNotReady) result = cudaStreamQuery(lane->stream);
  return cuda_check(result, "cudaStreamQuery", error);
}
