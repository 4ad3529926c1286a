// What both decoders share: see boxes.cuh.
#include "kernels/cuda/boxes/boxes.cuh"

#include <string.h>

#include "kernels/cuda/base/host.cuh"
#include "kernels/cuda/base/launch.cuh"
#include "kernels/cuda/base/memory.cuh"
#include "kernels/cuda/base/publish.cuh"
#include "kernels/cuda/base/tensors.cuh"
#include "kernels/cuda/base/transfer.cuh"
#include "kernels/rank.h"

enum { BLOCK = 256 };

// ---- prepare --------------------------------------------------------------------------------------------------------

static uint32_t largest_segment(const struct cuda_found *found) {
  uint32_t largest = 0;
  for (uint32_t group = 0; group < found->groups; group++) {
    uint32_t size = found->group_first[group + 1] - found->group_first[group];
    largest = size > largest ? size : largest;
  }
  return largest;
}

static void lay_out(struct cuda_run *run, struct cuda_found *found, struct cuda_found_parts *parts,
                    struct cuda_arena *arena) {
  uint64_t segments = found->segments.count, boxes = cuda_ranked_room(found->segments, found->most_made);
  cuda_take_inputs(run, arena);
  if (found->groups > 1) take(arena, &found->first, segments);
  take(arena, &found->device_radii, found->num_radii);
  take(arena, &found->keys, found->segments.room);
  take(arena, &found->num_made, segments);
  take(arena, &found->boxes, boxes * found->values);
  take(arena, &found->labels, boxes);
  take(arena, &found->indices, boxes);
  take(arena, &found->first_row, segments);
  cuda_take_ranking(&parts->ranking, arena);
  cuda_take_suppression(&parts->suppression, arena);
  take(arena, &found->num_kept, segments);
}

static void fill_parts(struct cuda_found *found, struct cuda_found_parts *parts) {
  struct cuda_ranking *ranking = &parts->ranking;
  struct cuda_suppression *suppression = &parts->suppression;
  found->segments.first = found->first;  // NULL if segments are clouds, since all clouds have the same size
  ranking->segments = suppression->segments = found->segments;
  ranking->counts = found->num_found;
  ranking->keys = found->keys;
  found->ranked = ranking->ranked;
  suppression->radii = found->num_radii == 0 ? NULL : found->device_radii;
  suppression->counts = found->some_left_out ? found->num_made : found->num_found;
  suppression->boxes = found->boxes;
  suppression->labels = suppression->nms.class_agnostic ? NULL : found->labels;
  suppression->num_kept = found->num_kept;
  found->kept = suppression->kept;
}

// num_found lies in control->tiles, which is zero when a job begins.
enum vx_status cuda_prepare_found(struct cuda_run *run, const struct vx_nms *nms, struct cuda_found *found,
                                  struct cuda_found_parts *parts, struct error *error) {
  struct cuda_arena measured = {}, arena = {};
  found->most_made = (uint32_t)nms->pre_max;
  found->segments.count = (uint32_t)run->clouds.count * found->groups;
  found->segments.largest = largest_segment(found);
  found->segments.room = (uint64_t)run->clouds.count * found->group_first[found->groups];
  parts->ranking.segments = parts->suppression.segments = found->segments;
  parts->ranking.most = found->most_ranked;
  parts->suppression.nms = *nms;
  parts->suppression.values = found->values;
  parts->suppression.num_radii = found->num_radii;
  CUDA_TRY(cuda_see_inputs(run, error));
  lay_out(run, found, parts, &measured);
  CUDA_TRY(cuda_reserve(run->lane, &run->lane->scratch, measured.used, error));
  arena.memory = run->lane->scratch.memory;
  lay_out(run, found, parts, &arena);
  run->num_tiles = cuda_blocks(found->segments.count, sizeof(uint64_t) / sizeof *found->num_found);
  CUDA_TRY(cuda_prepare_control(run, error));
  run->slow = true;
  found->num_found = (uint32_t *)run->control->tiles;
  fill_parts(found, parts);
  CUDA_TRY(cuda_copy_inputs(run, error));
  for (int i = 0; i < VX_MAX_INPUTS; i++) found->maps[i] = {run->inputs[i].data, run->job->inputs[i].dtype};
  return VX_OK;
}

// ---- settle ---------------------------------------------------------------------------------------------------------

// Each thread handles consecutive segments.
static __global__ void __launch_bounds__(BLOCK)
    settle_found_kernel(const __grid_constant__ struct cuda_view v, const __grid_constant__ struct cuda_found found) {
  cuda_wait();
  uint32_t each = (found.segments.count + BLOCK - 1) / BLOCK, begin = threadIdx.x * each, own = 0, total;
  uint32_t end = min(begin + each, found.segments.count);
  for (uint32_t i = begin; i < end; i++) own += found.num_kept[i];
  uint32_t row = cuda_block_before(own, &total);
  for (uint32_t i = begin; i < end; i++) {
    found.first_row[i] = row;
    row += found.num_kept[i];
  }
  __syncthreads();
  for (uint32_t cloud = threadIdx.x; cloud < found.segments.count / found.groups; cloud += BLOCK) {
    uint32_t next = (cloud + 1) * found.groups;
    v.control->cloud_rows[cloud] =
        (next < found.segments.count ? found.first_row[next] : total) - found.first_row[cloud * found.groups];
  }
  if (threadIdx.x == 0) v.status->counters.moments[CUDA_DECODED] = v.counters->moments[CUDA_DECODED];
  __syncthreads();
  publish(v, v.sequence);
}

static enum vx_status settle(const struct cuda_run *run, const struct cuda_found *found, struct error *error) {
  return cuda_launch("settle_found_kernel", settle_found_kernel, 1, BLOCK, 0, run, error, *run, *found);
}

// Items without another fate are below the threshold.
static enum vx_status read_sizes(struct cuda_run *run, struct error *error) {
  CUDA_TRY(cuda_await(run, &run->lane->status->sized, run->sequence, error));
  const struct cuda_device_status *status = (const struct cuda_device_status *)run->lane->status;
  const struct cuda_counters *sizes = &status->counters;
  struct vx_counts *counts = &run->job->counts;
  run->sizes = *sizes;
  counts->kept = sizes->kept;
  counts->over_max_objects = sizes->over_max_objects;
  counts->invalid = sizes->invalid;
  counts->outside = sizes->outside;
  counts->over_pre_max = sizes->over_pre_max;
  counts->suppressed = sizes->suppressed;
  counts->over_post_max = sizes->over_post_max;
  counts->below_threshold = counts->received - counts->kept - counts->over_max_objects - counts->invalid -
                            counts->outside - counts->over_pre_max - counts->suppressed - counts->over_post_max;
  for (int32_t cloud = 0; cloud < run->clouds.count; cloud++)
    run->job->row_counts[cloud] = (int32_t)status->cloud_rows[cloud];
  const uint64_t *moments = sizes->moments;
  int64_t *stage_ns = run->job->stage_ns;
  stage_ns[VX_STAGE_COPY_IN] = (int64_t)(moments[CUDA_ARRIVED] - moments[CUDA_BEGUN]);
  stage_ns[VX_STAGE_DECODE] = (int64_t)(moments[CUDA_DECODED] - moments[CUDA_ARRIVED]);
  stage_ns[VX_STAGE_NMS] = (int64_t)(moments[CUDA_FOUND] - moments[CUDA_DECODED]);
  return VX_OK;
}

// ---- write ----------------------------------------------------------------------------------------------------------

typedef struct cuda_tensors<VX_DECODED_BOXES, VX_BOX_COUNTS> found_tensors;

static __device__ void write_row(const struct cuda_found &found, const found_tensors &tensors, uint32_t row) {
  uint32_t segment = (uint32_t)cuda_last_at_most(found.first_row, (int32_t)found.segments.count, row);
  uint64_t first = cuda_ranked_begin(found.segments, found.most_made, segment);
  uint32_t rank = found.kept[first + (row - found.first_row[segment])];
  uint64_t key = found.ranked[cuda_ranked_begin(found.segments, found.most_ranked, segment) + rank];
  float *boxes = tensors.of<float>(VX_DECODED_BOXES), *scores = tensors.of<float>(VX_DECODED_SCORES);
  int32_t *labels = tensors.of<int32_t>(VX_DECODED_LABELS), *indices = tensors.of<int32_t>(VX_BOX_INDICES);
  for (uint32_t i = 0; boxes && i < found.values; i++)
    boxes[(uint64_t)row * found.values + i] = found.boxes[(first + rank) * found.values + i];
  float value = vx_score_of_key((uint32_t)(key >> 32));
  if (scores) scores[row] = found.rectified ? value : vx_sigmoid(value);
  if (labels) labels[row] = found.labels[first + rank];
  if (indices) indices[row] = found.indices[first + rank];
}

static __global__ void __launch_bounds__(BLOCK)
    write_found_kernel(const __grid_constant__ struct cuda_view v, const __grid_constant__ struct cuda_found found,
                       uint32_t num_rows, const __grid_constant__ found_tensors tensors) {
  cuda_wait();
  uint32_t begin = blockIdx.x * BLOCK + threadIdx.x, step = gridDim.x * BLOCK;
  int32_t *counts = tensors.of<int32_t>(VX_BOX_COUNTS);
  tensors.zero_gaps(begin);
  for (uint32_t cloud = begin; counts && cloud < (uint32_t)v.clouds.count; cloud += step)
    counts[cloud] = (int32_t)v.control->cloud_rows[cloud];
  for (uint64_t row = begin; row < num_rows; row += step) write_row(found, tensors, (uint32_t)row);
}

static enum vx_status write(const struct cuda_run *run, const struct cuda_found *found, struct error *error) {
  uint32_t num_rows = run->sizes.kept;
  unsigned blocks = cuda_looping_blocks(run, num_rows, BLOCK, 4);
  return cuda_launch("write_found_kernel", write_found_kernel, blocks, BLOCK, 0, run, error, *run, *found, num_rows,
                     cuda_tensors_of<VX_DECODED_BOXES, VX_BOX_COUNTS>(run));
}

enum vx_status cuda_write_none(struct cuda_run *run, struct error *error) {
  if (run->tensors == 0) return VX_OK;
  CUDA_TRY(cuda_take_output(run, error));
  if (run->layout.bytes > 0) memset(run->output, 0, run->layout.bytes);  // box_counts
  return VX_OK;
}

enum vx_status cuda_finish_found(struct cuda_run *run, const struct cuda_found *found,
                                 struct cuda_suppression *suppression, struct error *error) {
  CUDA_TRY(cuda_suppress(run, suppression, error));
  CUDA_TRY(settle(run, found, error));
  CUDA_TRY(read_sizes(run, error));
  if (run->tensors == 0) return cuda_clean(run, error);
  CUDA_TRY(cuda_take_output(run, error));
  if (run->layout.bytes > 0) {
    CUDA_TRY(cuda_reserve(run->lane, &run->lane->image, run->layout.bytes, error));
    CUDA_TRY(write(run, found, error));
  }
  return cuda_finish_output(run, error);
}
