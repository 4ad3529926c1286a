// The way of a voxelize job on a GPU: cuda_voxelize, at the end of this file. Runs on the thread that has the lane.
//
// The host waits twice: for the sizes, from which the layout of the output follows, and for the output.
#include <stdio.h>
#include <string.h>

#include "kernels/cuda/run.cuh"

#define TENSORS_OF_LISTS                                                                                               \
  (VX_TENSOR_BIT(VX_VOXELS) | VX_TENSOR_BIT(VX_VOXEL_FEATURES) | VX_TENSOR_BIT(VX_PILLAR_FEATURES))

// --- memory ---

// An array of `count` items, aligned for any access; NULL while the arena is only measured.
template <typename type> static void take(struct cuda_arena *arena, type **array, uint64_t count) {
  size_t bytes, end;
  if (__builtin_mul_overflow(count, sizeof(type), &bytes) || __builtin_add_overflow(bytes, (size_t)255, &bytes) ||
      __builtin_add_overflow(arena->used, bytes / 256 * 256, &end)) {
    end = SIZE_MAX;
  }
  *array = arena->memory == NULL ? NULL : (type *)(arena->memory + arena->used);
  arena->used = end;
}

// Grows to a power of two: jobs that differ a little do not each cost a new allocation. The stream must be idle.
static enum vx_status reserve(struct cuda_memory *memory, size_t bytes, struct vx_error *error) {
  if (bytes <= memory->bytes) {
    return VX_OK;
  }
  size_t grown = 1 << 20;
  while (grown < bytes && grown <= SIZE_MAX / 2) {
    grown *= 2;
  }
  CUDA_CALL(cudaFree(memory->memory), error);
  *memory = {};
  // Where twice the size does not fit, the size itself may.
  void *taken = NULL;
  cudaError_t result = cudaMalloc(&taken, grown < bytes ? bytes : grown);
  if (result == cudaErrorMemoryAllocation && grown > bytes) {
    (void)cudaGetLastError();
    grown = bytes;
    result = cudaMalloc(&taken, bytes);
  }
  CUDA_TRY(cuda_check(result, "cudaMalloc", error));
  *memory = {(unsigned char *)taken, grown < bytes ? bytes : grown};
  return VX_OK;
}

// --- what the job asks for ---

static enum vx_status measure_clouds(struct cuda_run *run, struct vx_error *error) {
  int64_t num_points = 0, row_capacity = 0;
  for (int32_t cloud = 0; cloud < run->job->num_clouds; cloud++) {
    int32_t points = run->job->point_counts[cloud], most = run->params->max_voxels;
    run->lane->cloud_points[cloud] = (uint32_t)num_points;
    num_points += points;
    row_capacity += points < most ? points : most;
    if (num_points > VX_MAX_POINTS) {
      snprintf(error->text, sizeof error->text, "more than %lld points are too many to be numbered",
               (long long)VX_MAX_POINTS);
      return VX_REFUSED;
    }
  }
  run->lane->cloud_points[run->job->num_clouds] = (uint32_t)num_points;
  run->num_points = (uint32_t)num_points;
  run->row_capacity = (uint32_t)row_capacity;
  run->clouds.count = run->job->num_clouds;
  run->clouds.num_points = run->num_points;
  return VX_OK;
}

static uint64_t power_of_two(uint64_t least) {
  uint64_t power = 2;
  while (power < least) {
    power *= 2;
  }
  return power;
}

static void read_params(struct cuda_run *run) {
  const struct vx_voxelize_params *params = run->params;
  run->map = vx_cell_map_of(params, &run->grid);
  run->columns = (uint32_t)params->num_features;
  run->lists.cap = params->max_points_per_voxel == 0 ? UINT32_MAX : (uint32_t)params->max_points_per_voxel;
  run->lists_wanted = params->block_filter.enabled || (params->tensors & TENSORS_OF_LISTS) != 0;
  run->sorted_lists = params->block_filter.enabled;  // which goes through all lists point by point
  run->num_tiles = cuda_blocks(run->num_points, CUDA_TILE);
  // At least half empty, and more where that costs little, so that probes are short; above 2^30 points 32 bits for a
  // slot's number allow no more than this.
  uint64_t slots = power_of_two((run->num_points < 1 << 19 ? 4 : 2) * (uint64_t)run->num_points);
  run->table_slots = slots > UINT64_C(1) << 31 ? UINT64_C(1) << 31 : slots;
  run->block_slots = power_of_two(2 * (uint64_t)run->row_capacity);
}

// All scratch of a job. Runs twice: over an empty arena to measure, then over the lane's. `tally`, the rows of the
// clouds and the tiles come first, as they are zeroed together, and lie without a hole, as the first two are copied.
static void lay_out(struct cuda_run *run, struct cuda_arena *arena) {
  const struct vx_voxelize_params *params = run->params;
  bool filtered = params->block_filter.enabled, ordered = params->order == VX_ORDER_KEY;
  uint64_t points = run->num_points, rows = run->row_capacity, clouds = (uint64_t)run->clouds.count;
  unsigned char *head;
  take(arena, &head, sizeof *run->tally + VX_MAX_CLOUDS * sizeof(uint32_t));
  run->tally = (struct cuda_tally *)head;
  run->cloud_rows = head == NULL ? NULL : (uint32_t *)(run->tally + 1);
  take(arena, &run->tiles, run->num_tiles);
  take(arena, &run->points, points * run->columns);
  run->input = run->points;
  if (params->input_dtype == VX_FLOAT16) {
    uint16_t *halves;
    take(arena, &halves, points * run->columns);
    run->input = halves;
  }
  take(arena, &run->places, points);
  take(arena, &run->first_points, points);
  take(arena, &run->cell_hits, points);
  take(arena, &run->rows, points);
  run->lists.hits = run->cell_hits;
  if (run->clouds.count > 1) {
    take(arena, &run->lists.hits, rows);
    uint32_t *first_point;
    take(arena, &first_point, clouds + 1);
    run->clouds.first_point = first_point;
    take(arena, &run->clouds.first_cell, clouds);
    take(arena, &run->clouds.first_row, clouds);
  }
  if (run->lists_wanted) {
    take(arena, &run->lists.begins, rows);
    take(arena, &run->lists.points, points);
  }
  if (run->lists_wanted && params->max_points_per_voxel == 0) {
    take(arena, &run->big, rows);
    // A sixteenth of the points: more than all levels of group sums need.
    take(arena, &run->big_sums, (points / (CUDA_SUM_GROUP / 4) + 2) * run->columns);
  }
  if (run->sorted_lists) {
    take(arena, &run->numbers, points);
    take(arena, &run->sorted_rows, points);
  }
  if (ordered || filtered) {
    take(arena, &run->output_rows, rows);
    take(arena, &run->rows_in_order, rows);
  }
  if (ordered) {
    take(arena, &run->rows_unordered, rows);
    take(arena, &run->order_keys[0], rows);
    take(arena, &run->order_keys[1], rows);
  }
  if (filtered) {
    take(arena, &run->block_keys, run->block_slots);
    take(arena, &run->block_heights, 2 * run->block_slots);
    take(arena, &run->block_stays, run->block_slots);
    take(arena, &run->block_of, rows);
    take(arena, &run->stays, rows);
  }
  unsigned char *cub;
  take(arena, &cub, run->cub_bytes);
  run->cub = cub;
}

// The table keeps its entries between jobs; one that is new or has used up its epochs is made all free.
static enum vx_status prepare_table(struct cuda_run *run, struct vx_error *error) {
  struct vx_lane *lane = run->lane;
  size_t before = lane->table.bytes;  // the address says nothing: what was freed may come back
  enum vx_status status = reserve(&lane->table, run->table_slots * sizeof(struct cuda_slot), error);
  if (lane->table.bytes != before) {
    lane->epoch = 0;  // until it is certain that the table is clear
  }
  CUDA_TRY(status);
  if (lane->epoch == 0) {
    CUDA_CALL(cudaMemsetAsync(lane->table.memory, 0xFF, lane->table.bytes, run->stream), error);
    lane->epoch = CUDA_EPOCH_NONE;
  }
  lane->epoch--;
  run->table = (struct cuda_slot *)lane->table.memory;
  return VX_OK;
}

static enum vx_status prepare(struct cuda_run *run, struct vx_error *error) {
  CUDA_TRY(vx_grid_of(run->params, run->job->num_clouds, &run->grid, error));
  CUDA_TRY(measure_clouds(run, error));
  if (run->num_points == 0) {
    return VX_OK;
  }
  read_params(run);
  CUDA_TRY(cuda_measure_cub(run, &run->cub_bytes, error));
  struct cuda_arena measured = {};
  lay_out(run, &measured);
  CUDA_TRY(reserve(&run->lane->scratch, measured.used, error));
  struct cuda_arena arena = {run->lane->scratch.memory, 0};
  lay_out(run, &arena);
  return prepare_table(run, error);
}

// --- stages ---

static enum vx_status mark(const struct cuda_run *run, int stage, struct vx_error *error) {
  return cuda_check(cudaEventRecord(run->lane->marks[stage], run->stream), "cudaEventRecord", error);
}

static enum vx_status copy_in(const struct cuda_run *run, struct vx_error *error) {
  size_t bytes = (size_t)run->num_points * run->columns * vx_dtype_size(run->params->input_dtype);
  size_t zeroed = (size_t)((unsigned char *)(run->tiles + run->num_tiles) - (unsigned char *)run->tally);
  CUDA_TRY(mark(run, 0, error));
  CUDA_CALL(cudaMemsetAsync(run->tally, 0, zeroed, run->stream), error);
  if (run->clouds.count > 1) {
    size_t cloud_bytes = ((size_t)run->clouds.count + 1) * sizeof(uint32_t);
    CUDA_CALL(cudaMemcpyAsync((void *)run->clouds.first_point, run->lane->cloud_points, cloud_bytes,
                              cudaMemcpyHostToDevice, run->stream),
              error);
  }
  CUDA_CALL(cudaMemcpyAsync(run->input, run->job->points, bytes, cudaMemcpyHostToDevice, run->stream), error);
  return mark(run, 1, error);
}

static enum vx_status find_rows(const struct cuda_run *run, struct vx_error *error) {
  if (run->params->input_dtype == VX_FLOAT16) {
    CUDA_TRY(cuda_widen(run, error));
  }
  CUDA_TRY(cuda_insert(run, error));
  CUDA_TRY(cuda_number(run, error));
  CUDA_TRY(cuda_assign(run, error));
  if (run->sorted_lists) {
    CUDA_TRY(cuda_sort_lists(run, error));
  } else if (run->lists_wanted) {
    CUDA_TRY(cuda_order_lists(run, error));
  }
  if (run->params->block_filter.enabled) {
    CUDA_TRY(cuda_filter(run, error));
  }
  return mark(run, 2, error);
}

static enum vx_status read_result(const struct cuda_run *run, struct vx_error *error) {
  size_t clouds = run->clouds.count > 1 ? (size_t)run->clouds.count : 0;
  CUDA_CALL(cudaMemcpyAsync(run->lane->result, run->tally, sizeof *run->tally + clouds * sizeof(uint32_t),
                            cudaMemcpyDeviceToHost, run->stream),
            error);
  CUDA_CALL(cudaStreamSynchronize(run->stream), error);
  const struct cuda_tally *tally = run->lane->result;
  if (tally->unplaced != 0) {
    snprintf(error->text, sizeof error->text, "insert_kernel: %u points found no slot", tally->unplaced);
    return VX_DEVICE_LOST;
  }
  struct vx_counts *counts = &run->job->counts;
  counts->kept = tally->kept;
  counts->not_finite = tally->not_finite;
  counts->out_of_range = tally->out_of_range;
  counts->over_voxel_cap = tally->over_voxel_cap;
  counts->over_max_voxels = tally->over_max_voxels;
  counts->block_filtered = tally->block_filtered;
  counts->voxels_kept = tally->num_output_rows;
  counts->voxels_dropped = (int64_t)tally->num_cells - tally->num_rows;
  counts->voxels_block_filtered = (int64_t)tally->num_rows - tally->num_output_rows;
  const uint32_t *cloud_rows = (const uint32_t *)(tally + 1);
  for (int32_t cloud = 0; cloud < run->clouds.count; cloud++) {
    run->job->voxel_counts[cloud] = (int32_t)(run->clouds.count > 1 ? cloud_rows[cloud] : tally->num_output_rows);
  }
  return VX_OK;
}

static enum vx_status write_output(const struct cuda_run *run, struct vx_error *error) {
  struct vx_voxelize_job *job = run->job;
  struct vx_layout layout;
  void *output = NULL;
  uint32_t num_rows = (uint32_t)job->counts.voxels_kept;
  CUDA_TRY(vx_layout_of(&job->params, run->num_points, num_rows, &layout, error));
  CUDA_TRY(job->output(job->output_cls, &layout, &output, error));
  if (layout.bytes == 0 || run->num_points == 0) {
    return VX_OK;
  }
  CUDA_TRY(reserve(&run->lane->image, layout.bytes, error));
  if (run->params->order == VX_ORDER_KEY && num_rows > 0) {
    CUDA_TRY(cuda_order(run, num_rows, error));
  }
  CUDA_TRY(cuda_gather(run, &layout, num_rows, run->lane->image.memory, error));
  CUDA_TRY(mark(run, 3, error));
  CUDA_CALL(cudaMemcpyAsync(output, run->lane->image.memory, layout.bytes, cudaMemcpyDeviceToHost, run->stream), error);
  CUDA_TRY(mark(run, 4, error));
  CUDA_CALL(cudaStreamSynchronize(run->stream), error);
  return VX_OK;
}

static enum vx_status read_time(const struct cuda_run *run, enum vx_stage stage, int begin, int end,
                                struct vx_error *error) {
  float ms = 0.0f;
  CUDA_CALL(cudaEventElapsedTime(&ms, run->lane->marks[begin], run->lane->marks[end]), error);
  run->job->stage_ns[stage] = (int64_t)((double)ms * 1e6);
  return VX_OK;
}

static enum vx_status run_stages(struct cuda_run *run, struct vx_error *error) {
  if (run->num_points > 0) {
    CUDA_TRY(copy_in(run, error));
    CUDA_TRY(find_rows(run, error));
    CUDA_TRY(read_result(run, error));
    CUDA_TRY(read_time(run, VX_STAGE_COPY_IN, 0, 1, error));
    CUDA_TRY(read_time(run, VX_STAGE_VOXELIZE, 1, 2, error));
  }
  if (run->params->tensors == 0) {
    return VX_OK;
  }
  if (run->num_points > 0) {
    CUDA_TRY(mark(run, 2, error));  // again: the host's part in between is nobody's device time
  }
  return write_output(run, error);
}

enum vx_status cuda_voxelize(struct vx_lane *lane, struct vx_voxelize_job *job, struct vx_error *error) {
  struct cuda_run run = {};
  run.lane = lane;
  run.job = job;
  run.params = &job->params;
  run.stream = lane->stream;
  memset(&job->counts, 0, sizeof job->counts);
  memset(job->stage_ns, 0, sizeof job->stage_ns);
  memset(job->voxel_counts, 0, (size_t)job->num_clouds * sizeof *job->voxel_counts);
  CUDA_CALL(cudaSetDevice(lane->device->index), error);
  CUDA_TRY(prepare(&run, error));
  job->counts.received = run.num_points;
  enum vx_status status = run_stages(&run, error);
  if (status != VX_OK) {
    // The caller takes its memory back after this: nothing may still be copying from or to it.
    (void)cudaStreamSynchronize(lane->stream);
    (void)cudaGetLastError();
    lane->epoch = 0;  // a job that ended between its kernels leaves counts in the table
  } else if (run.num_points > 0 && job->counts.voxels_kept > 0 && job->params.tensors != 0) {
    CUDA_TRY(read_time(&run, VX_STAGE_FEATURES, 2, 3, error));
    CUDA_TRY(read_time(&run, VX_STAGE_COPY_OUT, 3, 4, error));
  }
  return status;
}
