// The way of a voxelize job on a GPU: cuda_voxelize, at the end of this file. Runs on the thread that has the lane.
//
// The host enqueues everything up to the image of the output before it knows any size, learns the sizes while the
// device still writes that image, gets the caller's memory for them and enqueues the sending. Where the image could be
// very large, or something has to be sorted by cub, it waits for the sizes first.
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "kernels/cuda/run.cuh"

#define TENSORS_OF_LISTS                                                                                               \
  (VX_TENSOR_BIT(VX_VOXELS) | VX_TENSOR_BIT(VX_VOXEL_FEATURES) | VX_TENSOR_BIT(VX_PILLAR_FEATURES))
#define EAGER_BYTES ((size_t)256 << 20)  // an image up to this is reserved for the most rows that there can be

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
  run->clouds.max_rows = (uint32_t)run->params->max_voxels;
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
  const struct vx_params *params = run->params;
  run->map = vx_cell_map_of(params, &run->grid);
  run->num_cells = (uint64_t)run->grid.cells[0] * run->grid.cells[1] * run->grid.cells[2] * run->clouds.count;
  run->columns = (uint32_t)params->num_features;
  run->cap = params->max_points_per_voxel == 0 ? UINT32_MAX : (uint32_t)params->max_points_per_voxel;
  run->lists_wanted = params->block_filter.enabled || (params->tensors & TENSORS_OF_LISTS) != 0;
  run->whole_lists = run->lists_wanted && (params->block_filter.enabled || run->cap > CUDA_SHORT_CAP);
  run->means_wanted = run->cap == UINT32_MAX && (params->tensors & VX_TENSOR_BIT(VX_VOXEL_FEATURES)) != 0;
  run->num_tiles = cuda_blocks(run->num_points, CUDA_TILE);
  // At least half empty, and more where that costs little, so that probes are short; above 2^30 points 32 bits for a
  // slot's number allow no more than this.
  uint64_t slots = power_of_two((run->num_points < 1 << 19 ? 4 : 2) * (uint64_t)run->num_points);
  run->direct = run->num_cells <= CUDA_DIRECT_CELLS;
  run->table_slots = run->direct ? run->num_cells : slots > UINT64_C(1) << 31 ? UINT64_C(1) << 31 : slots;
  run->block_slots = power_of_two(2 * (uint64_t)run->row_capacity);
}

// Host memory as the device sees it, or NULL if it does not.
static enum vx_status see(const void *memory, size_t bytes, void **seen, struct vx_error *error) {
  struct cudaPointerAttributes first = {}, last = {};
  CUDA_CALL(cudaPointerGetAttributes(&first, memory), error);
  CUDA_CALL(cudaPointerGetAttributes(&last, (const char *)memory + bytes - 1), error);
  bool all = first.type != cudaMemoryTypeUnregistered && last.type != cudaMemoryTypeUnregistered;
  *seen = all ? first.devicePointer : NULL;
  return VX_OK;
}

static size_t input_bytes(const struct cuda_run *run) {
  return (size_t)run->num_points * (size_t)run->params->num_features * vx_dtype_size(run->params->input_dtype);
}

// Whether the gather can be enqueued before the host knows any size.
static void plan(struct cuda_run *run) {
  bool filtered = run->params->block_filter.enabled;
  bool sorted_by_cub = run->params->order == VX_ORDER_KEY && !run->direct;
  size_t most = run->lane->image.bytes > EAGER_BYTES ? run->lane->image.bytes : EAGER_BYTES;
  run->eager = !filtered && !sorted_by_cub && run->image_capacity <= most;
}

static enum vx_status prepare(struct cuda_run *run, struct vx_error *error) {
  struct vx_layout largest;
  struct vx_sizes most = cuda_sizes_of(run, run->row_capacity), least = cuda_sizes_of(run, 0);
  void *source;
  read_params(run);
  // The shapes of the worst case may not fit a size_t where those of the job do.
  bool possible = vx_layout_of(run->params, &most, &largest, error) == VX_OK;
  run->image_capacity = possible ? largest.bytes : SIZE_MAX;
  CUDA_TRY(vx_layout_of(run->params, &least, &largest, error));
  CUDA_TRY(see(run->job->points, input_bytes(run), &source, error));
  run->source = source;
  if (run->params->block_filter.enabled) {
    CUDA_TRY(cuda_measure_filter(run, &run->filter_cub_bytes, error));
  }
  plan(run);
  return cuda_prepare_memory(run, error);
}

// --- what the device says ---

static int64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void pause_briefly(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Waits until the device has written `sequence`: first in a tight loop, as the answer is mostly microseconds away, then
// letting others run, after a millisecond asleep in the driver. Not a call before that: each would hold the driver's lock
// against the launches of other lanes. A kernel that fails never writes; the driver then tells.
static enum vx_status await(const struct cuda_run *run, const volatile uint32_t *word, uint32_t sequence,
                            struct vx_error *error) {
  enum { TIGHT_NS = 50000, POLL_NS = 1000000, SPINS = 64 };
  int64_t began = now_ns(), waited = 0;
  while (*word != sequence && waited < POLL_NS) {
    for (int i = 0; i < SPINS && *word != sequence; i++) {
      pause_briefly();
    }
    waited = now_ns() - began;
    if (waited > TIGHT_NS) {
      sched_yield();
    }
  }
  if (*word != sequence) {
    CUDA_CALL(cudaStreamSynchronize(run->stream), error);
  }
  if (*word != sequence) {
    snprintf(error->text, sizeof error->text, "the device did all its work and gave no answer");
    return VX_DEVICE_LOST;
  }
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
  return cuda_check(cudaPeekAtLastError(), "cudaPeekAtLastError", error);
}

static enum vx_status read_sizes(struct cuda_run *run, uint32_t sequence, struct vx_error *error) {
  CUDA_TRY(await(run, &run->lane->report->sized, sequence, error));
  const struct cuda_report *report = (const struct cuda_report *)run->lane->report;
  run->sizes = report->tally;
  const struct cuda_tally *tally = &run->sizes;
  if (tally->unplaced != 0) {
    snprintf(error->text, sizeof error->text, "%u points found no slot", tally->unplaced);
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
  for (int32_t cloud = 0; cloud < run->clouds.count; cloud++) {
    run->job->voxel_counts[cloud] = (int32_t)(run->clouds.count > 1 ? report->cloud_rows[cloud] : counts->voxels_kept);
  }
  return VX_OK;
}

// All of copy_in: from the first block's start until the last points were here; those before them were in the table by
// then. The others follow on each other but for what the host takes.
static void read_times(const struct cuda_run *run) {
  uint64_t moments[CUDA_MOMENTS];
  for (int i = 0; i < CUDA_MOMENTS; i++) {
    moments[i] = run->lane->report->tally.moments[i];
  }
  int64_t *stage_ns = run->job->stage_ns;
  stage_ns[VX_STAGE_VOXELIZE] = (int64_t)(moments[CUDA_FOUND] - moments[CUDA_ARRIVED]);
  stage_ns[VX_STAGE_FEATURES] = (int64_t)(moments[CUDA_GATHERED] - moments[CUDA_FOUND]);
  stage_ns[VX_STAGE_COPY_OUT] = (int64_t)(moments[CUDA_SENT] - moments[CUDA_SENDING]);
}

// --- stages ---

static enum vx_status find_cells(const struct cuda_run *run, struct vx_error *error) {
  if (run->source == run->source_copy) {
    CUDA_CALL(
        cudaMemcpyAsync(run->source_copy, run->job->points, input_bytes(run), cudaMemcpyHostToDevice, run->stream),
        error);
  }
  if (run->clouds.count > 1) {
    CUDA_TRY(cuda_fetch_clouds(run, error));
  }
  CUDA_TRY(cuda_insert(run, error));
  CUDA_TRY(cuda_number(run, error));
  return cuda_assign(run, error);
}

static bool lists_too_long(const struct cuda_run *run) {
  return run->whole_lists && run->sizes.longest > CUDA_SHARED_LIST;
}

static enum vx_status find_rows(const struct cuda_run *run, bool sorted, struct vx_error *error) {
  if (run->whole_lists) {
    CUDA_TRY(cuda_order_lists(run, sorted, error));
  }
  if (run->params->block_filter.enabled) {
    CUDA_TRY(cuda_filter(run, error));
    CUDA_TRY(cuda_publish(run, run->lane->sequence + 1, error));
  }
  return run->params->order == VX_ORDER_KEY && run->direct ? cuda_order_rows(run, error) : VX_OK;
}

// As far as possible before any size is known.
static enum vx_status run_eagerly(struct cuda_run *run, struct vx_error *error) {
  uint32_t sequence = run->lane->sequence;
  CUDA_TRY(find_rows(run, false, error));
  CUDA_TRY(run->params->tensors != 0 ? cuda_gather(run, true, error) : cuda_publish(run, sequence, error));
  CUDA_TRY(read_sizes(run, sequence, error));
  if (!lists_too_long(run)) {
    return VX_OK;
  }
  CUDA_TRY(cuda_sort_lists(run, error));  // and once more, with what was missing
  CUDA_TRY(cuda_order_lists(run, true, error));
  return run->params->tensors != 0 ? cuda_gather(run, false, error) : VX_OK;
}

// Size by size.
static enum vx_status run_in_steps(struct cuda_run *run, struct vx_error *error) {
  CUDA_TRY(cuda_publish(run, run->lane->sequence, error));
  CUDA_TRY(read_sizes(run, run->lane->sequence, error));
  bool sorted = lists_too_long(run);
  if (sorted) {
    CUDA_TRY(cuda_sort_lists(run, error));
  }
  CUDA_TRY(find_rows(run, sorted, error));
  if (run->params->block_filter.enabled) {
    CUDA_TRY(read_sizes(run, run->lane->sequence + 1, error));
  }
  if (run->params->tensors == 0) {
    return VX_OK;
  }
  if (run->params->order == VX_ORDER_KEY && !run->direct) {
    CUDA_TRY(cuda_sort_rows(run, error));
  }
  struct vx_layout layout;
  struct vx_sizes sizes = cuda_sizes_of(run, run->sizes.num_output_rows);
  CUDA_TRY(vx_layout_of(run->params, &sizes, &layout, error));
  CUDA_TRY(cuda_reserve(&run->lane->image, layout.bytes, error));
  return layout.bytes == 0 ? VX_OK : cuda_gather(run, false, error);
}

static enum vx_status write_output(const struct cuda_run *run, struct vx_error *error) {
  struct vx_job *job = run->job;
  struct vx_layout layout;
  struct vx_sizes sizes = cuda_sizes_of(run, run->sizes.num_output_rows);
  void *output = NULL, *seen = NULL;
  CUDA_TRY(vx_layout_of(&job->params, &sizes, &layout, error));
  CUDA_TRY(job->output(job->output_cls, &layout, &output, error));
  CUDA_CALL(cudaSetDevice(run->lane->device->index), error);  // memory may have been taken through another device
  if (layout.bytes == 0 || run->num_points == 0) {
    return VX_OK;
  }
  CUDA_TRY(see(output, layout.bytes, &seen, error));
  if (seen == NULL) {
    CUDA_CALL(cudaMemcpyAsync(output, run->lane->image.memory, layout.bytes, cudaMemcpyDeviceToHost, run->stream),
              error);
  }
  CUDA_TRY(cuda_send(run, seen, seen == NULL ? 0 : layout.bytes, error));
  CUDA_TRY(cuda_clean(run, error));
  CUDA_TRY(await(run, &run->lane->report->sent, run->lane->sequence, error));
  read_times(run);
  return VX_OK;
}

static enum vx_status run_stages(struct cuda_run *run, struct vx_error *error) {
  if (run->num_points == 0) {
    return run->params->tensors == 0 ? VX_OK : write_output(run, error);
  }
  run->lane->sequence += 2;
  CUDA_TRY(prepare(run, error));
  CUDA_TRY(find_cells(run, error));
  CUDA_TRY(run->eager ? run_eagerly(run, error) : run_in_steps(run, error));
  const uint64_t *moments = run->sizes.moments;
  run->job->stage_ns[VX_STAGE_COPY_IN] = (int64_t)(moments[CUDA_ARRIVED] - moments[CUDA_BEGUN]);
  run->job->stage_ns[VX_STAGE_VOXELIZE] = (int64_t)(moments[CUDA_FOUND] - moments[CUDA_ARRIVED]);
  bool cleaned = false;
  if (run->params->tensors != 0) {
    CUDA_TRY(write_output(run, error));
    cleaned = run->sizes.num_output_rows > 0 || (run->params->tensors & VX_TENSOR_BIT(VX_POINT_VOXEL_IDS)) != 0;
  }
  if (!cleaned) {
    CUDA_TRY(cuda_clean(run, error));
  }
  run->lane->clean = true;
  return cuda_trim(run->lane, error);
}

enum vx_status cuda_voxelize(struct vx_lane *lane, struct vx_job *job, struct vx_error *error) {
  struct cuda_run run = {};
  run.lane = lane;
  run.job = job;
  run.params = &job->params;
  run.stream = lane->stream;
  memset(&job->counts, 0, sizeof job->counts);
  memset(job->stage_ns, 0, sizeof job->stage_ns);
  memset(job->voxel_counts, 0, (size_t)job->num_clouds * sizeof *job->voxel_counts);
  CUDA_CALL(cudaSetDevice(lane->device->index), error);
  CUDA_TRY(vx_grid_of(run.params, job->num_clouds, &run.grid, error));
  CUDA_TRY(measure_clouds(&run, error));
  job->counts.received = run.num_points;
  enum vx_status status = run_stages(&run, error);
  if (status != VX_OK) {
    // The caller takes its memory back after this: nothing may still be copying from or to it.
    (void)cudaStreamSynchronize(lane->stream);
    (void)cudaGetLastError();
    lane->clean = false;  // a job that ended between its kernels leaves cells in the table
  }
  return status;
}
