// A voxelize job on a GPU. Runs on the thread that has the lane.
//
// The host enqueues everything up to the image of the output before it knows any size. It learns the sizes while the
// device still writes the image, gets the caller's memory and enqueues the transfer. If the image could be very large,
// if there is a block filter, or if cub must sort the rows, the host waits for the sizes first (run_in_steps).
#include "kernels/cuda/voxelize/voxelize.cuh"

#include "kernels/cuda/base/host.cuh"
#include "kernels/cuda/base/launch.cuh"
#include "kernels/cuda/base/memory.cuh"
#include "kernels/cuda/base/publish.cuh"
#include "kernels/cuda/base/sections.cuh"
#include "kernels/cuda/base/table.cuh"
#include "kernels/cuda/base/transfer.cuh"
#include "kernels/cuda/encode/encode.cuh"
#include "kernels/cuda/fps/fps.cuh"
#include "kernels/samples.h"

// ---- what the job asks for ------------------------------------------------------------------------------------------

static void read_params(struct cuda_run *run) {
  const struct vx_voxelize *params = run->params;
  run->map = vx_cell_map_of(params, &run->grid);
  run->num_pillars = (uint64_t)run->grid.cells[0] * run->grid.cells[1] * run->clouds.count;
  run->num_cells = run->num_pillars * run->grid.cells[2];
  run->nx = (uint32_t)run->grid.cells[0];
  run->ny = (uint32_t)run->grid.cells[1];
  run->nz = (uint32_t)run->grid.cells[2];
  run->cap = params->max_points_per_voxel == 0 ? CUDA_NO_CAP : (uint32_t)params->max_points_per_voxel;
  run->chunk = run->columns <= 32 ? 32 : 16;
  run->intensity = (run->tensors & VX_INTENSITY_MAPS) != 0 ? (uint32_t)params->intensity : 0;
  run->filtered = params->block_filter.enabled;
  run->feature_dtype = params->feature_dtype;
  run->fill_mean = params->fill == VX_FILL_MEAN;
  bool sampled = run->sampling && run->tensors != 0;
  const vx_tensor_set bev = VX_TENSOR_BIT(VX_BEV_FEATURES),
                      means = VX_TENSOR_BIT(VX_VOXEL_FEATURES) | VX_ENCODED_TENSORS | bev;
  bool listed = run->filtered || sampled || (run->tensors & VX_LIST_TENSORS) != 0;
  run->lists_wanted = listed || (run->sections.count > 0 && run->cap != CUDA_NO_CAP);
  run->picked = run->lists_wanted && run->cap != CUDA_NO_CAP && params->choice.points_by != VX_POINTS_FIRST;
  run->whole_lists = listed && (run->filtered || run->picked || run->cap > CUDA_SHORT_CAP);
  run->means_wanted = run->cap == CUDA_NO_CAP && (sampled || (run->tensors & means) != 0);
  run->encoded = params->encoder.num_layers > 0 && (run->tensors & (VX_ENCODED_TENSORS | bev)) != 0;
  run->scattered = (run->tensors & bev) == 0 ? VX_TENSOR_COUNT : run->encoded ? VX_ENCODED_FEATURES : VX_VOXEL_FEATURES;
  cuda_plan_choice(run);
  run->num_tiles = cuda_blocks(run->clouds.num_points, CUDA_TILE);
  run->direct = run->num_cells <= CUDA_DIRECT_CELLS;
  run->marked = params->order == VX_ORDER_KEY && run->num_cells <= CUDA_MARKED_CELLS;
  run->table.slots = run->direct ? run->num_cells : cuda_cell_slots(run->clouds.num_points);
}

static void plan_features(struct cuda_run *run) {
  if (run->encoded) cuda_measure_encoder(run);
  if (run->scattered != VX_TENSOR_COUNT && (run->tensors & VX_TENSOR_BIT(run->scattered)) == 0)
    run->feature_bytes = (size_t)cuda_sizes_of(run, 0).values * vx_dtype_size(run->params->feature_dtype);
}

static void plan(struct cuda_run *run) {
  bool sorted_by_cub = run->params->order == VX_ORDER_KEY && !run->marked;
  size_t most = run->lane->image.bytes > CUDA_EAGER_BYTES ? run->lane->image.bytes : CUDA_EAGER_BYTES;
  run->eager = !run->filtered && !sorted_by_cub && run->image_capacity <= most;
}

// Fails if the output with one row would not fit a size_t. The output with the most rows need not fit.
static enum vx_status plan_image(struct cuda_run *run, struct error *error) {
  struct vx_layout largest, none, one;
  struct vx_sizes most = cuda_sizes_of(run, run->row_capacity), no_row = cuda_sizes_of(run, 0),
                  one_row = cuda_sizes_of(run, 1);
  bool possible = vx_layout_of(run->tensors, &most, &largest, error) == VX_OK;
  run->image_capacity = possible ? largest.bytes : SIZE_MAX;
  CUDA_TRY(vx_layout_of(run->tensors, &no_row, &none, error));
  CUDA_TRY(vx_layout_of(run->tensors, &one_row, &one, error));
  run->plan.tensors = run->tensors & ~VX_CHAIN_TENSORS;  // chain tensors come last, with lengths of their own
  for (int tensor = 0; tensor < VX_TENSOR_COUNT; tensor++) {
    run->plan.own_bytes[tensor] = none.shape[tensor].bytes;
    run->plan.row_bytes[tensor] = one.shape[tensor].bytes - none.shape[tensor].bytes;
  }
  return VX_OK;
}

static enum vx_status prepare(struct cuda_run *run, struct error *error) {
  void *source;
  read_params(run);
  CUDA_TRY(plan_image(run, error));
  CUDA_TRY(cuda_see_part(run, run->input.data, cuda_input_bytes(run), &source, error));
  run->source = source;
  if (run->filtered) cuda_plan_filter(run);
  plan(run);
  plan_features(run);
  CUDA_TRY(cuda_prepare_memory(run, error));
  return run->encoded ? cuda_bring_weights(run, error) : VX_OK;
}

// ---- what the device says -------------------------------------------------------------------------------------------

static enum vx_status read_sizes(struct cuda_run *run, uint32_t sequence, struct error *error) {
  CUDA_TRY(cuda_read_counters(run, sequence, error));
  const struct cuda_device_status *status = (const struct cuda_device_status *)run->lane->status;
  const struct cuda_counters *counters = &run->sizes;
  struct vx_counts *counts = &run->job->counts;
  counts->not_finite = counters->not_finite;
  counts->out_of_range = counters->out_of_range;
  counts->over_voxel_cap = counters->over_voxel_cap;
  counts->over_max_voxels = counters->over_max_voxels;
  counts->block_filtered = counters->block_filtered;
  counts->kept =
      (int64_t)counters->num_inside - counters->over_voxel_cap - counters->over_max_voxels - counters->block_filtered;
  counts->voxels_kept = counters->num_output_rows;
  counts->voxels_dropped = (int64_t)counters->num_cells - counters->num_rows;
  counts->voxels_block_filtered = (int64_t)counters->num_rows - counters->num_output_rows;
  for (int32_t cloud = 0; cloud < run->clouds.count; cloud++)
    run->job->row_counts[cloud] = (int32_t)(run->clouds.count > 1 ? status->cloud_rows[cloud] : counts->voxels_kept);
  cuda_read_sections(run);
  return VX_OK;
}

// ---- stages ---------------------------------------------------------------------------------------------------------

static enum vx_status find_cells(const struct cuda_run *run, struct error *error) {
  CUDA_TRY(cuda_copy_source(run, error));
  if (run->clouds.count > 1) CUDA_TRY(cuda_fetch_clouds(run, error));
  CUDA_TRY(cuda_insert(run, error));
  CUDA_TRY(cuda_number(run, error));
  if (run->choice.by != VX_VOXELS_FIRST) CUDA_TRY(cuda_choose(run, error));
  CUDA_TRY(cuda_assign(run, error));
  if (run->picked) CUDA_TRY(cuda_pick(run, error));
  return run->filtered ? VX_OK : cuda_count_sections(run, error);
}

static bool lists_too_long(const struct cuda_run *run) {
  return run->whole_lists && run->sizes.longest > CUDA_SHARED_LIST;
}

static enum vx_status find_rows(const struct cuda_run *run, bool sorted, struct error *error) {
  if (run->whole_lists) CUDA_TRY(cuda_order_lists(run, sorted, error));
  if (run->filtered) {
    CUDA_TRY(cuda_filter(run, error));
    CUDA_TRY(cuda_count_sections(run, error));
    CUDA_TRY(cuda_publish(run, run->sequence + 1, error));
  }
  return run->marked ? cuda_order_rows(run, error) : VX_OK;
}

static enum vx_status write_image(struct cuda_run *run, bool publish, struct error *error) {
  bool mapped = (run->tensors & (VX_CELL_MAPS | VX_PILLAR_MAPS)) != 0;
  run->plan.memory = run->lane->image.memory;
  CUDA_TRY(cuda_gather(run, publish, error));
  CUDA_TRY(mapped ? cuda_write_maps(run, error) : VX_OK);
  CUDA_TRY(run->encoded ? cuda_encode(run, error) : VX_OK);
  return run->scattered != VX_TENSOR_COUNT ? cuda_write_bev(run, error) : VX_OK;
}

// Takes the output's memory, once all sizes are known.
static enum vx_status settle(struct cuda_run *run, struct error *error) {
  if (run->sampling) CUDA_TRY(vx_begin_samples(run->job, run->job->row_counts, error));
  if (run->tensors == 0) return VX_OK;
  return run->clouds.num_points == 0 ? cuda_take_zeros(run, error) : cuda_take_output(run, error);
}

static enum vx_status run_eagerly(struct cuda_run *run, struct error *error) {
  uint32_t sequence = run->sequence;
  CUDA_TRY(find_rows(run, false, error));
  CUDA_TRY(run->tensors != 0 ? write_image(run, true, error) : cuda_publish(run, sequence, error));
  CUDA_TRY(read_sizes(run, sequence, error));
  CUDA_TRY(settle(run, error));
  if (!lists_too_long(run)) return VX_OK;
  CUDA_TRY(cuda_sort_lists(run, error));  // then gathers again, with all lists sorted
  CUDA_TRY(cuda_order_lists(run, true, error));
  return run->tensors != 0 ? write_image(run, false, error) : VX_OK;
}

// Waits for each size before the next stage.
static enum vx_status run_in_steps(struct cuda_run *run, struct error *error) {
  CUDA_TRY(cuda_publish(run, run->sequence, error));
  CUDA_TRY(read_sizes(run, run->sequence, error));
  bool sorted = lists_too_long(run);
  if (sorted) CUDA_TRY(cuda_sort_lists(run, error));
  CUDA_TRY(find_rows(run, sorted, error));
  if (run->filtered) CUDA_TRY(read_sizes(run, run->sequence + 1, error));
  CUDA_TRY(settle(run, error));
  if (run->tensors == 0 || run->layout.bytes == 0) return VX_OK;
  if (run->params->order == VX_ORDER_KEY && !run->marked) CUDA_TRY(cuda_sort_rows(run, error));
  CUDA_TRY(cuda_reserve(run->lane, &run->lane->image, run->layout.bytes, error));
  return write_image(run, false, error);
}

// Reserves for the most rows that each cloud can have. Runs before the gather, which writes the means that are sampled.
static enum vx_status reserve_samples(struct cuda_run *run, struct error *error) {
  for (int32_t cloud = 0; cloud < run->job->num_clouds; cloud++) {
    int32_t points = run->job->point_counts[cloud], most = run->params->max_voxels;
    run->job->row_counts[cloud] = points < most ? points : most;
  }
  return cuda_fps_reserve(run, run->job->row_counts, error);
}

static enum vx_status sample_voxels(struct cuda_run *run, struct error *error) {
  cuda_fps_measure(run, run->job->row_counts);
  if (run->fps.num_rows > 0) {
    CUDA_TRY(cuda_fps_sort(run, error));
    CUDA_TRY(cuda_fps_check(run, error));
    CUDA_TRY(cuda_fps_sample(run, error));
  }
  return cuda_fps_write(run, error);
}

enum vx_status cuda_voxelize(struct cuda_run *run, struct error *error) {
  run->gathers = VX_STAGE_FEATURES;
  CUDA_TRY(vx_grid_of(run->params, run->job->num_clouds, &run->grid, error));
  bool sampled = run->sampling && run->tensors != 0;
  if (run->clouds.num_points == 0) return settle(run, error);
  if (sampled) CUDA_TRY(reserve_samples(run, error));
  CUDA_TRY(prepare(run, error));
  CUDA_TRY(find_cells(run, error));
  CUDA_TRY(run->eager ? run_eagerly(run, error) : run_in_steps(run, error));
  const uint64_t *moments = run->sizes.moments;
  run->job->stage_ns[VX_STAGE_COPY_IN] = (int64_t)(moments[CUDA_ARRIVED] - moments[CUDA_BEGUN]);
  run->job->stage_ns[VX_STAGE_VOXELIZE] = (int64_t)(moments[CUDA_FOUND] - moments[CUDA_ARRIVED]);
  if (sampled) CUDA_TRY(sample_voxels(run, error));
  return run->tensors == 0 ? cuda_clean(run, error) : cuda_finish_output(run, error);
}
