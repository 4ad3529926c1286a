// A voxelize job on the CPU.
#include "kernels/cpu/voxelize/voxelize.h"

#include <string.h>

#include "kernels/cpu/base/base.h"
#include "kernels/cpu/encode/encode.h"
#include "kernels/ops.h"
#include "kernels/parallel_for.h"
#include "kernels/samples.h"

static int32_t larger(int32_t a, int32_t b) { return a > b ? a : b; }

static void measure_clouds(struct cpu_run *run) {
  run->num_points = (int32_t)run->job->counts.received;
  for (int32_t cloud = 0; cloud < run->job->num_clouds; cloud++) {
    int32_t points = run->job->point_counts[cloud];
    int32_t rows = cpu_smaller(points, run->params->max_voxels);
    run->row_capacity += rows;  // at most the number of points
    run->largest_cloud = larger(run->largest_cloud, points);
    run->largest_rows = larger(run->largest_rows, rows);
  }
}

static void read_params(struct cpu_run *run) {
  const struct vx_voxelize *params = run->params;
  run->map = vx_cell_map_of(params, &run->grid);
  run->columns = (int32_t)run->lane->points.dims[1];
  run->cap = params->max_points_per_voxel == 0 ? INT32_MAX : params->max_points_per_voxel;
  run->encoded_values = vx_encoder_width(&params->encoder);
  vx_tensor_set tensors = run->job->tensors;
  run->sectioned = run->job->sections.count > 0;
  run->lists_wanted = params->block_filter.enabled || (tensors & VX_LIST_TENSORS) != 0 || run->sampling ||
                      (run->sectioned && run->cap != INT32_MAX);
  run->ids_wanted = (tensors & VX_TENSOR_BIT(VX_POINT_VOXEL_IDS)) != 0;
  if (params->block_filter.enabled) {
    for (int axis = 0; axis < 2; axis++)
      run->grid_blocks[axis] = (run->grid.cells[axis] - 1) / params->block_filter.factor + 1;
    run->block_key = vx_key_format_of(run->grid_blocks[0], run->grid_blocks[1], 1);
  }
}

// A cloud is not cut into segments if it would then need more scratch than a lane may keep.
static enum vx_status take_scratch(struct cpu_run *run, struct error *error) {
  struct cpu_arena measured = {0};
  run->cut.count = cpu_segments_wanted(run);
  cpu_parts_lay_out(run, &measured);
  if (run->cut.count > 0 && measured.used > VX_SCRATCH_KEPT) {
    run->cut.count = 0;
    measured = (struct cpu_arena){0};
    cpu_parts_lay_out(run, &measured);
  }
  enum vx_status status = cpu_arena_reserve(&run->lane->scratch, &measured, run->job, error);
  if (status == VX_OK) cpu_parts_lay_out(run, &run->lane->scratch);
  return status;
}

static enum vx_status prepare(struct cpu_run *run, struct error *error) {
  enum vx_status status = vx_grid_of(run->params, run->job->num_clouds, &run->grid, error);
  if (status == VX_OK) {
    measure_clouds(run);
    read_params(run);
    status = take_scratch(run, error);
  }
  if (status == VX_OK) {
    run->points = cpu_float_points(run->lane, run->stop, (int64_t)run->num_points * run->columns, run->widened);
    status = vx_stop_status(run->stop, error);
  }
  return status;
}

static enum vx_status find_voxels(struct cpu_run *run, const struct cpu_cloud *cloud, struct error *error) {
  if (run->cut.count > 0) return cpu_index_segments(run, cloud, error);
  cpu_index_points(run, cloud);
  if (run->params->choice.voxels_by != VX_VOXELS_FIRST) {
    cpu_choose_voxels(run);
    cpu_renumber_points(run);
  }
  cpu_make_rows(run, cloud);
  return VX_OK;
}

static enum vx_status list_points(struct cpu_run *run, const struct cpu_cloud *cloud, struct error *error) {
  enum vx_status status = VX_OK;
  if (!run->lists_wanted) return VX_OK;
  if (run->cut.count > 0)
    status = cpu_list_segments(run, cloud, error);
  else
    cpu_list_points(run, cloud);
  if (status == VX_OK && run->params->choice.points_by != VX_POINTS_FIRST) cpu_choose_points(run, cloud);
  return status;
}

// Writes the rows of one cloud to run.rows from cloud->first_row on.
static enum vx_status group_cloud(struct cpu_run *run, const struct cpu_cloud *cloud, struct error *error) {
  enum vx_status status = find_voxels(run, cloud, error);
  if (status == VX_OK) {
    cpu_gather_maps(run, cloud);
    status = list_points(run, cloud, error);
  }
  if (status != VX_OK) return status;
  if (run->params->block_filter.enabled) cpu_filter_blocks(run, cloud);
  if (run->sectioned) cpu_count_sections(run, cloud);
  if (run->params->order == VX_ORDER_KEY) cpu_order_rows(run, cloud);
  if (run->ids_wanted) cpu_name_points(run, cloud);
  return vx_stop_status(run->stop, error);
}

static enum vx_status group_task(void *ctx, const struct vx_worker *worker, int32_t number, struct error *error) {
  const struct cpu_run *run = ctx;
  struct cpu_grouped *grouped = &run->grouped[number];
  struct vx_job job = *run->job;
  struct cpu_run part;
  enum vx_status status = cpu_parts_take(run, worker, true, &part, error);
  if (status != VX_OK) return status;
  int32_t begin = grouped->begin, end = begin + job.point_counts[number];
  const struct cpu_cloud cloud = {number, begin, end, grouped->place};
  job.counts = (struct vx_counts){0};
  part.job = &job;
  part.num_rows = grouped->place;
  part.num_listed = part.num_filled = part.num_pillars = begin;
  status = group_cloud(&part, &cloud, error);
  grouped->counts = job.counts;
  grouped->num_rows = part.num_rows - grouped->place;
  grouped->num_filled = part.num_filled - begin;
  grouped->num_pillars = part.num_pillars - begin;
  return status;
}

static enum vx_status group_clouds(struct cpu_run *run, struct error *error) {
  const struct vx_tasks clouds = {run->job->num_clouds, group_task, run};
  cpu_parts_place(run);
  enum vx_status status = vx_parallel_for(run->job, run->lane, &clouds, error);
  if (status == VX_OK) {
    cpu_parts_gather(run);
    status = vx_stop_status(run->stop, error);
  }
  return status;
}

static enum vx_status write_output(struct cpu_run *run, struct error *error) {
  struct vx_job *job = run->job;
  struct vx_layout layout;
  void *output = NULL;
  enum vx_status status = VX_OK;
  if (run->sampling) status = cpu_write_means(run, run->means, error);
  if (status == VX_OK && run->sampling) status = cpu_fps_prepare(&run->fps, run->means, job->row_counts, error);
  if (status == VX_OK) status = vx_take_output(job, &layout, &output, error);
  if (status == VX_OK) status = cpu_write_tensors(run, &layout, output, error);
  if (status == VX_OK && run->sampling) status = cpu_fps(&run->fps, run->lane, &layout, output, error);
  return status;
}

enum vx_status cpu_voxelize(struct vx_lane *lane, struct vx_job *job, struct error *error) {
  int64_t began = clock_ns();
  struct cpu_run run = {
      .job = job, .lane = lane, .stop = job->stop, .params = &job->params.voxelize, .sampling = vx_sampling_of(job)};
  enum vx_status status = prepare(&run, error);
  if (status == VX_OK) {
    status = group_clouds(&run, error);
    job->stage_ns[VX_STAGE_VOXELIZE] = clock_ns() - began;
  }
  if (status == VX_OK && run.sampling) status = vx_begin_samples(job, job->row_counts, error);
  if (status == VX_OK && job->tensors != 0) status = write_output(&run, error);
  return status;
}
