// See memory.cuh and README.md.
//
// Jobs leave the table of cells and the counters clean. These are cleared as a whole only if the previous job failed or
// the memory is new.
#include "kernels/cuda/base/memory.cuh"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/base/chain.cuh"

#define MEGABYTE ((size_t)1 << 20)
#define KEPT_BYTES (512 * MEGABYTE)  // if a lane has more memory than this after a job,
#define KEPT_BLOCK (64 * MEGABYTE)   // it frees its blocks that are larger than this

enum { USUAL_POINTS = 1 << 18, USUAL_CELLS = 1 << 20 };

void *cuda_take(struct cuda_arena *arena, uint64_t count, size_t size) {
  size_t bytes, end;
  if (__builtin_mul_overflow(count, size, &bytes) || __builtin_add_overflow(bytes, (size_t)255, &bytes) ||
      __builtin_add_overflow(arena->used, bytes / 256 * 256, &end))
    end = SIZE_MAX;
  void *array = arena->memory ? arena->memory + arena->used : NULL;
  arena->used = end;
  return array;
}

// ---- blocks ---------------------------------------------------------------------------------------------------------

// The default pool's threshold is 0: it keeps no free memory after a synchronization. An allocation takes new memory
// rather than wait for a free in another lane's stream.
enum vx_status cuda_find_pool(struct vx_device *device, struct error *error) {
  int supported = 0, no = 0;
  CUDA_CALL(cudaDeviceGetAttribute(&supported, cudaDevAttrMemoryPoolsSupported, device->index), error);
  if (supported != 0) {
    CUDA_CALL(cudaDeviceGetDefaultMemPool(&device->pool, device->index), error);
    CUDA_CALL(cudaMemPoolSetAttribute(device->pool, cudaMemPoolReuseAllowInternalDependencies, &no), error);
  }
  return VX_OK;
}

static enum vx_status take_block(struct vx_lane *lane, struct cuda_memory *block, size_t bytes, struct error *error) {
  void *memory = NULL;
  cudaMemPool_t pool = lane->device->pool;
  cudaError_t result = pool ? cudaMallocFromPoolAsync(&memory, bytes, pool, lane->stream) : cudaMalloc(&memory, bytes);
  CUDA_TRY(cuda_check(result, "cudaMalloc", error));
  *block = {(unsigned char *)memory, bytes};
  return VX_OK;
}

// Whether a job expects the block to be clean.
static bool is_of_table(const struct vx_lane *lane, const struct cuda_memory *block) {
  return block == &lane->control || block == &lane->keys || block == &lane->cells || block == &lane->marks ||
         block == &lane->digits;
}

// Memory that could not be freed is not used again. Its replacement is not clean.
static enum vx_status release_block(struct vx_lane *lane, struct cuda_memory *block, struct error *error) {
  void *memory = block->memory;
  lane->clean = lane->clean && !is_of_table(lane, block);
  lane->chain_clean = lane->chain_clean && block != &lane->chain_control;
  lane->uses = block == &lane->step_cells ? 0 : lane->uses;
  *block = {};
  if (!memory) return VX_OK;
  lane->freed = true;
  cudaError_t result = lane->device->pool ? cudaFreeAsync(memory, lane->stream) : cudaFree(memory);
  return cuda_check(result, "cudaFree", error);
}

// Gives the driver back what the lane has freed. The pool releases memory only after the host has seen the stream pass
// the free.
static enum vx_status release_to_driver(struct vx_lane *lane, struct error *error) {
  if (lane->device->pool) {
    CUDA_CALL(cudaStreamSynchronize(lane->stream), error);
    CUDA_CALL(cudaMemPoolTrimTo(lane->device->pool, 0), error);
  }
  lane->freed = false;
  return VX_OK;
}

// If `grown` bytes do not fit, tries the exact size, after the pool has released all free memory.
static enum vx_status grow(struct vx_lane *lane, struct cuda_memory *block, size_t bytes, size_t grown,
                           struct error *error) {
  CUDA_TRY(release_block(lane, block, error));
  enum vx_status status = take_block(lane, block, grown, error);
  if (status == VX_OUT_OF_MEMORY) {
    CUDA_TRY(release_to_driver(lane, error));
    status = take_block(lane, block, bytes, error);
  }
  return status;
}

// Sizes are whole words, since a kernel may change bits of the last word.
enum vx_status cuda_reserve_exactly(struct vx_lane *lane, struct cuda_memory *block, size_t bytes,
                                    struct error *error) {
  if (bytes <= block->bytes) return VX_OK;
  if (bytes > PTRDIFF_MAX) return vx_fail(error, VX_OUT_OF_MEMORY, "the job needs more memory than any device has");
  bytes += -bytes % sizeof(uint32_t);
  return grow(lane, block, bytes, bytes, error);
}

enum vx_status cuda_reserve(struct vx_lane *lane, struct cuda_memory *block, size_t bytes, struct error *error) {
  if (bytes <= block->bytes) return VX_OK;
  if (bytes > PTRDIFF_MAX) return cuda_reserve_exactly(lane, block, bytes, error);  // refuses
  size_t grown = MEGABYTE;
  while (grown < bytes) grown *= 2;
  return grow(lane, block, bytes + -bytes % sizeof(uint32_t), grown, error);
}

// ---- the arrays of a job --------------------------------------------------------------------------------------------

// Points that the device cannot read in place are copied to source_copy. For float32 points that is where the rows
// arrive, for others an array of its own. The rows that a chain left are on the device already.
void cuda_take_points(struct cuda_run *run, struct cuda_arena *arena) {
  uint64_t values = (uint64_t)run->clouds.num_points * run->columns;
  const struct cuda_chain *chain = run->lane->chain;
  if (chain && run->source && (run->source == chain->rows.points || run->source == chain->cylinder)) {
    run->points = (float *)run->source;
    run->source_copy = NULL;
    return;
  }
  take(arena, &run->points, values);
  struct cuda_points *arriving = run->arriving.columns > 0 ? &run->arriving : run;
  if (arriving != run) take(arena, &arriving->points, (uint64_t)run->clouds.num_points * arriving->columns);
  if (!run->source && vx_is_narrow(run->dtype)) {
    unsigned char *copy;
    take(arena, &copy, (uint64_t)run->clouds.num_points * arriving->columns * vx_dtype_size(run->dtype));
    run->source_copy = copy;
  } else {
    run->source_copy = run->source ? NULL : arriving->points;
  }
}

void cuda_take_clouds(struct cuda_run *run, struct cuda_arena *arena) {
  if (run->clouds.count > 1) {
    uint32_t *first_point;
    take(arena, &first_point, (uint64_t)run->clouds.count + 1);
    run->clouds.first_point = first_point;
  }
}

static void lay_out_choice(struct cuda_choice *choice, uint64_t points, uint64_t clouds, struct cuda_arena *arena) {
  take(arena, &choice->last, clouds * CUDA_RANK_DIGITS);
  take(arena, &choice->ranks, points);
  take(arena, &choice->counts, clouds * choice->per_cloud);
  take(arena, &choice->records, points);
}

static void lay_out_filter(struct cuda_run *run, struct cuda_arena *arena) {
  struct cuda_block_filter *filter = &run->filter;
  take(arena, &filter->blocks.keys, filter->blocks.slots);
  take(arena, &filter->heights, 2 * filter->blocks.slots);
  take(arena, &filter->block_stays, filter->blocks.slots);
  take(arena, &filter->block_of, run->row_capacity);
  take(arena, &filter->tiles, (uint64_t)filter->num_tiles + 1);
}

// Runs twice: over an empty arena to measure, then over the lane's scratch.
static void lay_out(struct cuda_run *run, struct cuda_arena *arena) {
  const struct vx_voxelize *params = run->params;
  bool ordered = params->order == VX_ORDER_KEY;
  uint64_t points = run->clouds.num_points, rows = run->row_capacity, clouds = (uint64_t)run->clouds.count;
  cuda_take_points(run, arena);
  take(arena, &run->slots, points);
  take(arena, &run->ranks, points);
  take(arena, &run->records, points);
  cuda_take_clouds(run, arena);
  if (run->clouds.count > 1) {
    take(arena, &run->clouds.first_cell, clouds);
    take(arena, &run->clouds.first_row, clouds);
  }
  if ((run->tensors & VX_TENSOR_BIT(VX_POINT_VOXEL_IDS)) != 0) take(arena, &run->rows, points);
  if (run->lists_wanted) take(arena, &run->lists, points);
  if (run->whole_lists) take(arena, &run->queue, rows);
  if (run->means_wanted) {
    take(arena, &run->means, rows * run->columns);
    // The group sums of all levels need less than a sixteenth of the points.
    take(arena, &run->tree_sums, (points / (CUDA_SUM_GROUP / 4) + 2) * run->columns);
  }
  if ((run->tensors & VX_TENSOR_BIT(VX_BEV_TOP_INTENSITY)) != 0) take(arena, &run->tops, run->num_pillars);
  if (run->feature_bytes != 0) take(arena, &run->features, rows * run->feature_bytes);
  if (run->room_floats != 0) take(arena, &run->encoder_room, run->num_rooms * run->room_floats);
  if (ordered || run->filtered) {
    take(arena, &run->output_rows, rows);
    take(arena, &run->rows_in_order, rows);
  }
  if (run->choice.by != VX_VOXELS_FIRST) lay_out_choice(&run->choice, points, clouds, arena);
  if (run->marked) take(arena, &run->marks_before, cuda_mark_groups(run->num_cells));
  if (run->filtered) lay_out_filter(run, arena);
}

static size_t control_bytes(uint64_t num_tiles) {
  return sizeof(struct cuda_control) + (size_t)num_tiles * sizeof(uint64_t);
}

static enum vx_status reserve_table(struct vx_lane *lane, uint64_t num_tiles, uint64_t num_keys, uint64_t num_cells,
                                    uint64_t num_groups, struct error *error) {
  CUDA_TRY(cuda_reserve(lane, &lane->control, control_bytes(num_tiles), error));
  CUDA_TRY(cuda_reserve(lane, &lane->keys, num_keys * sizeof(uint64_t), error));
  CUDA_TRY(cuda_reserve(lane, &lane->cells, num_cells * sizeof(struct cuda_cell), error));
  return cuda_reserve(lane, &lane->marks, num_groups * CUDA_MARK_WORDS * sizeof(uint32_t), error);
}

static enum vx_status clear(struct vx_lane *lane, struct error *error) {
  CUDA_CALL(cudaMemsetAsync(lane->control.memory, 0, lane->control.bytes, lane->stream), error);
  CUDA_CALL(cudaMemsetAsync(lane->keys.memory, 0xFF, lane->keys.bytes, lane->stream), error);
  CUDA_CALL(cudaMemsetAsync(lane->cells.memory, 0xFF, lane->cells.bytes, lane->stream), error);
  CUDA_CALL(cudaMemsetAsync(lane->marks.memory, 0, lane->marks.bytes, lane->stream), error);
  CUDA_CALL(cudaMemsetAsync(lane->digits.memory, 0, lane->digits.bytes, lane->stream), error);
  return VX_OK;
}

static void begin_table(const struct cuda_run *run, struct cuda_table *table) {
  memcpy(table->seed, run->lane->seed, sizeof table->seed);
  table->unplaced = &run->counters->unplaced;
}

static enum vx_status take_control(struct cuda_run *run, struct error *error) {
  struct vx_lane *lane = run->lane;
  if (!lane->clean) CUDA_TRY(clear(lane, error));
  lane->clean = false;  // until the end of this job
  run->control = (struct cuda_control *)lane->control.memory;
  run->counters = &run->control->counters[lane->sequence / 4 % 2];
  run->stop = {&run->commands->stop, &run->control->told, run->sequence};
  run->table.keys = run->direct ? NULL : (uint64_t *)lane->keys.memory;
  run->cells = (struct cuda_cell *)lane->cells.memory;
  run->marks = run->marked ? (uint32_t *)lane->marks.memory : NULL;
  run->choice.digits = (uint32_t *)lane->digits.memory;
  begin_table(run, &run->table);
  begin_table(run, &run->filter.blocks);
  return VX_OK;
}

static enum vx_status reserve_control(const struct cuda_run *run, struct error *error) {
  uint64_t num_groups = run->marked ? cuda_mark_groups(run->num_cells) : 0;
  uint64_t slots = run->table.slots, clouds = run->choice.by == VX_VOXELS_FIRST ? 0 : (uint64_t)run->clouds.count;
  size_t digits = clouds * CUDA_RANK_DIGITS << CUDA_DIGIT_BITS;
  CUDA_TRY(cuda_reserve(run->lane, &run->lane->digits, digits * sizeof(uint32_t), error));
  return reserve_table(run->lane, run->num_tiles, run->direct ? 0 : slots, slots, num_groups, error);
}

enum vx_status cuda_prepare_control(struct cuda_run *run, struct error *error) {
  CUDA_TRY(reserve_control(run, error));
  return take_control(run, error);
}

enum vx_status cuda_prepare_memory(struct cuda_run *run, struct error *error) {
  struct vx_lane *lane = run->lane;
  CUDA_TRY(reserve_control(run, error));
  struct cuda_arena measured = {};
  lay_out(run, &measured);
  CUDA_TRY(cuda_reserve(lane, &lane->scratch, measured.used, error));
  if (run->eager) CUDA_TRY(cuda_reserve(lane, &lane->image, run->image_capacity, error));
  CUDA_TRY(take_control(run, error));
  struct cuda_arena arena = {lane->scratch.memory, 0};
  lay_out(run, &arena);
  run->source = run->source ? run->source : run->source_copy;
  return VX_OK;
}

// ---- the lane's life ------------------------------------------------------------------------------------------------

enum vx_status cuda_presize(struct vx_lane *lane, struct error *error) {
  CUDA_TRY(reserve_table(lane, USUAL_POINTS / CUDA_TILE, USUAL_CELLS, USUAL_CELLS, 0, error));
  CUDA_TRY(cuda_reserve(lane, &lane->scratch, 16 * MEGABYTE, error));
  return cuda_reserve(lane, &lane->image, 64 * MEGABYTE, error);
}

static struct cuda_memory *block_of(struct vx_lane *lane, int i) {
  struct cuda_memory *blocks[] = {&lane->control,    &lane->keys,          &lane->cells,      &lane->marks,
                                  &lane->digits,     &lane->chain_control, &lane->chain_rows, &lane->scratch,
                                  &lane->sorting,    &lane->sampling,      &lane->image,      &lane->weights,
                                  &lane->features,   &lane->maps,          &lane->levels,     &lane->sparse,
                                  &lane->step_cells, &lane->backbone,      &lane->deskew};
  return i < (int)(sizeof blocks / sizeof blocks[0]) ? blocks[i] : NULL;
}

enum vx_status cuda_trim(struct vx_lane *lane, struct error *error) {
  size_t sum = 0;
  for (int i = 0; block_of(lane, i); i++) sum += block_of(lane, i)->bytes;
  for (int i = 0; sum > KEPT_BYTES && block_of(lane, i); i++)
    if (block_of(lane, i)->bytes > KEPT_BLOCK) CUDA_TRY(release_block(lane, block_of(lane, i), error));
  return lane->freed ? release_to_driver(lane, error) : VX_OK;
}

void cuda_release_all(struct vx_lane *lane) {
  struct error unread;
  for (int i = 0; block_of(lane, i); i++) (void)release_block(lane, block_of(lane, i), &unread);
  free(lane->host_weights);
  lane->host_weights = NULL;
  if (lane->freed) (void)release_to_driver(lane, &unread);
}
