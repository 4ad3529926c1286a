// The way of a voxelize job on the CPU: cpu_voxelize, at the end of this file. Runs on the thread that has the lane.
#include "kernels/cpu/voxelize/voxelize.h"

#include <string.h>

#include "kernels/cpu/base/lane.h"
#include "kernels/cpu/encode/encode.h"
#include "kernels/cpu/voxelize/block_filter.h"
#include "kernels/cpu/voxelize/maps.h"
#include "kernels/cpu/voxelize/points.h"
#include "kernels/cpu/voxelize/rows.h"
#include "kernels/cpu/voxelize/writers.h"
#include "kernels/ops.h"
#include "kernels/samples.h"

static int32_t smaller(int32_t a, int32_t b) { return a < b ? a : b; }
static int32_t larger(int32_t a, int32_t b) { return a > b ? a : b; }

static void measure_clouds(struct cpu_run *run) {
  run->num_points = (int32_t)run->job->counts.received;
  for (int32_t cloud = 0; cloud < run->job->num_clouds; cloud++) {
    int32_t points = run->job->point_counts[cloud];
    int32_t rows = smaller(points, run->params->max_voxels);
    run->row_capacity += rows;  // no more than there are points
    run->largest_cloud = larger(run->largest_cloud, points);
    run->largest_rows = larger(run->largest_rows, rows);
  }
}

static void take_index(struct cpu_cell_index *index, struct cpu_arena *arena, int64_t most, int key_bits) {
  index->table = cpu_arena_take(arena, cpu_cell_index_slots(most, key_bits), sizeof *index->table);
  index->entries = cpu_arena_take(arena, (uint64_t)most, sizeof *index->entries);
}

static void lay_out_features(struct cpu_run *run, struct cpu_arena *arena) {
  uint64_t width = (uint64_t)run->encoded_values;
  if (width != 0) {
    uint64_t rows = (uint64_t)smaller(run->cap, run->largest_cloud) + 1;
    uint64_t room = (uint64_t)cpu_encode_room(&run->params->encoder);
    for (int i = 0; i < 2; i++) {
      run->pillar_rows[i] = cpu_arena_take(arena, rows * room, sizeof(float));
    }
    run->encoded = cpu_arena_take(arena, width, sizeof *run->encoded);
  }
  if ((run->job->tensors & VX_TENSOR_BIT(VX_BEV_FEATURES)) != 0) {
    enum vx_tensor rows = width == 0 ? VX_VOXEL_FEATURES : VX_ENCODED_FEATURES;
    size_t row_bytes = (width == 0 ? (size_t)run->columns : width) * vx_dtype_size(run->params->feature_dtype);
    if ((run->job->tensors & VX_TENSOR_BIT(rows)) == 0) {
      run->features = cpu_arena_take(arena, (uint64_t)run->row_capacity, row_bytes);
    }
    run->placed = cpu_arena_take(arena, (uint64_t)run->largest_rows, sizeof *run->placed);
  }
}

// Takes all scratch of a job. Runs twice: over an empty arena to measure, then over the lane's.
static void lay_out(struct cpu_run *run, struct cpu_arena *arena) {
  bool filtered = run->params->block_filter.enabled;
  bool ordered = run->params->order == VX_ORDER_KEY;
  uint64_t points = (uint64_t)run->num_points;
  uint64_t rows = (uint64_t)run->largest_rows;

  take_index(&run->cells, arena, run->largest_cloud, run->map.key.bits);
  run->inside = cpu_arena_take(arena, (uint64_t)run->largest_cloud, sizeof *run->inside);
  run->voxel_of = cpu_arena_take(arena, (uint64_t)run->largest_cloud, sizeof *run->voxel_of);
  run->rows = cpu_arena_take(arena, (uint64_t)run->row_capacity, sizeof *run->rows);
  if (run->lists_wanted) {
    run->list = cpu_arena_take(arena, points, sizeof *run->list);
    run->next = cpu_arena_take(arena, rows + 1, sizeof *run->next);
  }
  if (run->ids_wanted) {
    run->point_ids = cpu_arena_take(arena, points, sizeof *run->point_ids);
    run->row_of = cpu_arena_take(arena, rows, sizeof *run->row_of);
  }
  if (run->job->inputs[VX_POINTS].dtype == VX_FLOAT16) {
    run->widened = cpu_arena_take(arena, points * (uint64_t)run->columns, sizeof *run->widened);
  }
  if (run->sampling != NULL) {
    run->means = cpu_arena_take(arena, (uint64_t)run->row_capacity * (uint64_t)run->columns, sizeof *run->means);
    cpu_fps_lay_out(&run->fps, arena, run->job, run->largest_rows);
  }
  lay_out_features(run, arena);
  cpu_maps_lay_out(run, arena);
  if (ordered || filtered) {
    run->sorting = cpu_arena_take(arena, 2 * rows, sizeof *run->sorting);
  }
  if (ordered) {
    run->rows_in_order = cpu_arena_take(arena, rows, sizeof *run->rows_in_order);
  }
  if (filtered) {
    take_index(&run->blocks, arena, run->largest_rows, run->block_key.bits);
    run->block_of = cpu_arena_take(arena, rows, sizeof *run->block_of);
    run->block_stays = cpu_arena_take(arena, rows, sizeof *run->block_stays);
    run->heights = cpu_arena_take(arena, rows, sizeof *run->heights);
    for (int k = 0; k < CPU_STRETCHES; k++) {
      run->stretch_heights[k] = cpu_arena_take(arena, rows, sizeof *run->stretch_heights[k]);
    }
  }
}

static void read_params(struct cpu_run *run) {
  const struct vx_voxelize *params = run->params;
  run->map = vx_cell_map_of(params, &run->grid);
  run->columns = (int32_t)run->job->inputs[VX_POINTS].dims[1];
  run->cap = params->max_points_per_voxel == 0 ? INT32_MAX : params->max_points_per_voxel;
  run->encoded_values = vx_encoder_width(&params->encoder);
  vx_tensor_set tensors = run->job->tensors;
  run->lists_wanted = params->block_filter.enabled || (tensors & VX_LIST_TENSORS) != 0 || run->sampling != NULL;
  run->ids_wanted = (tensors & VX_TENSOR_BIT(VX_POINT_VOXEL_IDS)) != 0;
  if (params->block_filter.enabled) {
    for (int axis = 0; axis < 2; axis++) {
      run->grid_blocks[axis] = (run->grid.cells[axis] - 1) / params->block_filter.factor + 1;
    }
    run->block_key = vx_key_format_of(run->grid_blocks[0], run->grid_blocks[1], 1);
  }
}

static enum vx_status take_scratch(struct cpu_run *run, struct vx_lane *lane, struct vx_error *error) {
  struct cpu_arena measured = {0};
  lay_out(run, &measured);
  enum vx_status status = cpu_arena_reserve(&lane->scratch, &measured, run->job, error);
  if (status == VX_OK) {
    lay_out(run, &lane->scratch);
    memcpy(run->cells.seed, lane->seed, sizeof lane->seed);
    memcpy(run->blocks.seed, lane->seed, sizeof lane->seed);
    memcpy(run->pillar_index.seed, lane->seed, sizeof lane->seed);
  }
  return status;
}

static enum vx_status prepare(struct cpu_run *run, struct vx_lane *lane, struct vx_error *error) {
  enum vx_status status = vx_grid_of(run->params, run->job->num_clouds, &run->grid, error);
  if (status == VX_OK) {
    measure_clouds(run);
    read_params(run);
    status = take_scratch(run, lane, error);
  }
  if (status == VX_OK) {
    run->points = cpu_float_points(run->job, (int64_t)run->num_points * run->columns, run->widened);
  }
  return status;
}

// Finds the rows of one cloud and appends them to those of the clouds before it.
static void group_cloud(struct cpu_run *run, const struct cpu_cloud *cloud) {
  cpu_index_points(run, cloud);
  cpu_gather_maps(run, cloud);
  cpu_list_points(run, cloud);
  if (run->params->block_filter.enabled) {
    cpu_filter_blocks(run, cloud);
  }
  if (run->params->order == VX_ORDER_KEY) {
    cpu_order_rows(run, cloud);
  }
  if (run->ids_wanted) {
    cpu_name_points(run, cloud);
  }
}

static void group_clouds(struct cpu_run *run) {
  int32_t begin = 0;
  for (int32_t number = 0; number < run->job->num_clouds; number++) {
    int32_t end = begin + run->job->point_counts[number];
    struct cpu_cloud cloud = {.number = number, .begin = begin, .end = end, .first_row = run->num_rows};
    group_cloud(run, &cloud);
    run->job->row_counts[number] = run->num_rows - cloud.first_row;
    begin = end;
  }
  run->job->counts.voxels_kept = run->num_rows;
}

static enum vx_status write_output(struct cpu_run *run, struct vx_error *error) {
  struct vx_job *job = run->job;
  struct vx_layout layout;
  void *output = NULL;
  enum vx_status status = VX_OK;
  if (run->sampling != NULL) {
    int64_t began = cpu_now_ns();
    cpu_write_means(run, run->means);
    job->stage_ns[VX_STAGE_FEATURES] = cpu_now_ns() - began;
    status = cpu_fps_prepare(&run->fps, job, run->means, job->row_counts, error);
  }
  if (status == VX_OK) {
    status = vx_take_output(job, &layout, &output, error);
  }
  if (status == VX_OK) {
    cpu_write_tensors(run, &layout, output);
  }
  if (status == VX_OK && run->sampling != NULL) {
    status = cpu_fps(&run->fps, &layout, output, error);
  }
  return status;
}

enum vx_status cpu_voxelize(struct vx_lane *lane, struct vx_job *job, struct vx_error *error) {
  int64_t began = cpu_now_ns();
  struct cpu_run run = {.job = job, .params = &job->params.voxelize, .sampling = vx_sampling_of(job)};
  enum vx_status status = prepare(&run, lane, error);
  if (status == VX_OK) {
    group_clouds(&run);
    job->stage_ns[VX_STAGE_VOXELIZE] = cpu_now_ns() - began;
  }
  if (status == VX_OK && run.sampling != NULL) {
    status = vx_begin_samples(job, job->row_counts, error);
  }
  if (status == VX_OK && job->tensors != 0) {
    status = write_output(&run, error);
  }
  return status;
}
