// See found.cuh.
#include "kernels/cuda/boxes/found.cuh"

#include <string.h>

#include "kernels/cuda/base/host.cuh"
#include "kernels/cuda/base/inputs.cuh"
#include "kernels/cuda/base/launch.cuh"
#include "kernels/cuda/base/memory.cuh"
#include "kernels/cuda/base/publish.cuh"
#include "kernels/cuda/base/transfer.cuh"
#include "kernels/rank.h"

enum { BLOCK = 256 };

// --- prepare ---

static uint32_t largest_segment(const struct cuda_found *found) {
  uint32_t largest = 0;
  for (uint32_t task = 0; task < found->tasks; task++) {
    uint32_t size = found->task_first[task + 1] - found->task_first[task];
    largest = size > largest ? size : largest;
  }
  return largest;
}

// Runs twice: over an empty arena to measure, then over the lane's scratch.
static void lay_out(struct cuda_found *found, struct cuda_arena *arena) {
  uint64_t segments = found->segments.count;
  uint64_t boxes = cuda_ranked_room(found->segments, (uint32_t)found->nms.pre_max);
  cuda_take_inputs(found->run, arena);
  if (found->tasks > 1) {
    take(arena, &found->first, segments);
  }
  take(arena, &found->device_radii, found->num_radii);
  take(arena, &found->keys, found->segments.room);
  take(arena, &found->num_made, segments);
  take(arena, &found->boxes, boxes * found->values);
  take(arena, &found->labels, boxes);
  take(arena, &found->first_row, segments);
  cuda_take_ranking(&found->ranking, arena);
  cuda_take_suppression(&found->suppression, arena);
  take(arena, &found->suppression.num_kept, segments);
}

// The parts that rank and suppress, once the arrays have their places.
static void fill_parts(struct cuda_found *found) {
  struct cuda_ranking *ranking = &found->ranking;
  struct cuda_suppression *suppression = &found->suppression;
  found->segments.first = found->first;  // NULL if segments are clouds, which all have the same size
  ranking->segments = suppression->segments = found->segments;
  ranking->counts = found->num_found;
  ranking->keys = found->keys;
  found->ranked = ranking->ranked;
  suppression->radii = found->radii == NULL ? NULL : found->device_radii;
  suppression->counts = found->some_left_out ? found->num_made : found->num_found;
  suppression->boxes = found->boxes;
  suppression->labels = found->nms.class_agnostic ? NULL : found->labels;
}

// The numbers of what is found are where another operation has its tiles, which are zero when a job begins.
enum vx_status cuda_prepare_found(struct cuda_found *found, struct error *error) {
  struct cuda_run *run = found->run;
  struct cuda_arena measured = {}, arena = {};
  found->segments.count = (uint32_t)run->clouds.count * found->tasks;
  found->segments.largest = largest_segment(found);
  found->segments.room = run->num_points;
  found->ranking.segments = found->suppression.segments = found->segments;
  found->ranking.most = found->most_ranked;
  found->suppression.nms = found->nms;
  found->suppression.values = found->values;
  found->suppression.num_radii = found->num_radii;
  CUDA_TRY(cuda_see_inputs(run, error));
  lay_out(found, &measured);
  CUDA_TRY(cuda_reserve(run->lane, &run->lane->scratch, measured.used, error));
  arena.memory = run->lane->scratch.memory;
  lay_out(found, &arena);
  run->num_tiles = cuda_blocks(found->segments.count, sizeof(uint64_t) / sizeof *found->num_found);
  CUDA_TRY(cuda_prepare_control(run, error));
  run->long_word = &run->lane->report->sized;
  found->num_found = (uint32_t *)run->control->tiles;
  fill_parts(found);
  CUDA_TRY(cuda_copy_inputs(run, error));
  for (int i = 0; i < VX_MAX_INPUTS; i++) {
    found->maps[i] = {run->inputs[i].data, run->job->inputs[i].dtype == VX_FLOAT16};
  }
  return VX_OK;
}

// --- settle ---

struct settle_params {
  const uint32_t *num_kept;  // [segments]
  uint32_t num_segments, tasks;
  uint32_t *first_row;
  uint32_t *cloud_rows;
  struct cuda_tally *tally;
  struct publish_params publish;
};

// Each thread has some segments in a row.
static __global__ void __launch_bounds__(BLOCK) settle_found_kernel(const __grid_constant__ struct settle_params p) {
  cuda_wait();
  uint32_t each = (p.num_segments + BLOCK - 1) / BLOCK, begin = threadIdx.x * each, own = 0, total;
  uint32_t end = min(begin + each, p.num_segments);
  for (uint32_t i = begin; i < end; i++) {
    own += p.num_kept[i];
  }
  uint32_t row = cuda_block_before(own, &total);
  for (uint32_t i = begin; i < end; i++) {
    p.first_row[i] = row;
    row += p.num_kept[i];
  }
  __syncthreads();
  for (uint32_t cloud = threadIdx.x; cloud < p.num_segments / p.tasks; cloud += BLOCK) {
    uint32_t next = (cloud + 1) * p.tasks;
    p.cloud_rows[cloud] = (next < p.num_segments ? p.first_row[next] : total) - p.first_row[cloud * p.tasks];
  }
  if (threadIdx.x == 0) {
    p.publish.report->tally.moments[CUDA_DECODED] = p.tally->moments[CUDA_DECODED];
  }
  __syncthreads();
  publish(p.publish);
}

static enum vx_status settle(const struct cuda_found *found, struct error *error) {
  const struct cuda_run *run = found->run;
  struct settle_params p = {};
  p.num_kept = found->suppression.num_kept;
  p.num_segments = found->segments.count;
  p.tasks = found->tasks;
  p.first_row = found->first_row;
  p.cloud_rows = run->control->cloud_rows;
  p.tally = run->tally;
  p.publish = publish_params_of(run, run->lane->sequence);
  return cuda_launch("settle_found_kernel", settle_found_kernel, 1, BLOCK, 0, run, p, error);
}

// What has no other fate is below the threshold; what is compared and neither kept nor suppressed is over post_max.
static enum vx_status read_sizes(struct cuda_run *run, struct error *error) {
  CUDA_TRY(cuda_await(run, &run->lane->report->sized, run->lane->sequence, error));
  const struct cuda_report *report = (const struct cuda_report *)run->lane->report;
  const struct cuda_tally *sizes = &report->tally;
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
  for (int32_t cloud = 0; cloud < run->clouds.count; cloud++) {
    run->job->row_counts[cloud] = (int32_t)report->cloud_rows[cloud];
  }
  const uint64_t *moments = sizes->moments;
  int64_t *stage_ns = run->job->stage_ns;
  stage_ns[VX_STAGE_COPY_IN] = (int64_t)(moments[CUDA_ARRIVED] - moments[CUDA_BEGUN]);
  stage_ns[VX_STAGE_DECODE] = (int64_t)(moments[CUDA_DECODED] - moments[CUDA_ARRIVED]);
  stage_ns[VX_STAGE_NMS] = (int64_t)(moments[CUDA_FOUND] - moments[CUDA_DECODED]);
  return VX_OK;
}

// --- write ---

enum { FOUND_TENSORS = VX_BOX_COUNTS - VX_DECODED_BOXES + 1 };

struct write_params {
  struct cuda_segments segments;
  uint32_t num_rows, most_ranked, most_made, tasks, task_first[VX_MAX_TASKS + 1];
  const uint32_t *first_row, *kept, *cloud_rows;
  const uint64_t *ranked;
  const float *boxes;
  uint32_t values;
  const int32_t *labels;
  void *tensors[FOUND_TENSORS];  // NULL: not asked for
  unsigned char *image;          // gaps between tensors are zeroed
  uint64_t gap_begin[FOUND_TENSORS], gap_end[FOUND_TENSORS];
};

static __device__ void *tensor_of(const struct write_params &p, enum vx_tensor tensor) {
  return p.tensors[tensor - VX_DECODED_BOXES];
}

static __device__ void write_row(const struct write_params &p, uint32_t row) {
  uint32_t segment = (uint32_t)cuda_last_at_most(p.first_row, (int32_t)p.segments.count, row);
  uint64_t first = cuda_ranked_begin(p.segments, p.most_made, segment);
  uint32_t rank = p.kept[first + (row - p.first_row[segment])];
  uint64_t key = p.ranked[cuda_ranked_begin(p.segments, p.most_ranked, segment) + rank];
  float *boxes = (float *)tensor_of(p, VX_DECODED_BOXES), *scores = (float *)tensor_of(p, VX_DECODED_SCORES);
  int32_t *labels = (int32_t *)tensor_of(p, VX_DECODED_LABELS), *indices = (int32_t *)tensor_of(p, VX_BOX_INDICES);
  for (uint32_t i = 0; boxes != NULL && i < p.values; i++) {
    boxes[(uint64_t)row * p.values + i] = p.boxes[(first + rank) * p.values + i];
  }
  if (scores != NULL) {
    scores[row] = vx_sigmoid(vx_score_of_key((uint32_t)(key >> 32)));
  }
  if (labels != NULL) {
    labels[row] = p.labels[first + rank];
  }
  if (indices != NULL) {
    indices[row] = (int32_t)(p.task_first[segment % p.tasks] + (uint32_t)key);
  }
}

static __global__ void __launch_bounds__(BLOCK) write_found_kernel(const __grid_constant__ struct write_params p) {
  cuda_wait();
  uint32_t begin = blockIdx.x * BLOCK + threadIdx.x, step = gridDim.x * BLOCK;
  int32_t *counts = (int32_t *)tensor_of(p, VX_BOX_COUNTS);
  for (int gap = 0; gap < FOUND_TENSORS; gap++) {
    if (p.gap_begin[gap] + begin < p.gap_end[gap]) {
      p.image[p.gap_begin[gap] + begin] = 0;  // a gap is shorter than a block
    }
  }
  for (uint32_t cloud = begin; counts != NULL && cloud < p.segments.count / p.tasks; cloud += step) {
    counts[cloud] = (int32_t)p.cloud_rows[cloud];
  }
  for (uint64_t row = begin; row < p.num_rows; row += step) {
    write_row(p, (uint32_t)row);
  }
}

static enum vx_status write(const struct cuda_found *found, struct error *error) {
  const struct cuda_run *run = found->run;
  const struct vx_layout *layout = &run->layout;
  struct write_params p = {};
  p.num_rows = run->sizes.kept;
  p.segments = found->segments;
  p.most_ranked = found->most_ranked;
  p.most_made = (uint32_t)found->nms.pre_max;
  p.tasks = found->tasks;
  memcpy(p.task_first, found->task_first, sizeof p.task_first);
  p.first_row = found->first_row;
  p.kept = found->suppression.kept;
  p.cloud_rows = run->control->cloud_rows;
  p.ranked = found->ranked;
  p.boxes = found->boxes;
  p.values = found->values;
  p.labels = found->labels;
  p.image = run->lane->image.memory;
  uint64_t end = 0;
  for (int i = 0; i < FOUND_TENSORS; i++) {
    int tensor = VX_DECODED_BOXES + i;
    if ((layout->tensors & VX_TENSOR_BIT(tensor)) != 0) {
      p.tensors[i] = p.image + layout->offset[tensor];
      p.gap_begin[i] = end;
      p.gap_end[i] = layout->offset[tensor];
      end = layout->offset[tensor] + layout->shape[tensor].bytes;
    }
  }
  unsigned blocks = cuda_looping_blocks(run, p.num_rows, BLOCK, 4);
  return cuda_launch("write_found_kernel", write_found_kernel, blocks, BLOCK, 0, run, p, error);
}

enum vx_status cuda_write_none(struct cuda_run *run, struct error *error) {
  if (run->tensors == 0) {
    return VX_OK;
  }
  CUDA_TRY(cuda_take_output(run, error));
  if (run->layout.bytes > 0) {
    memset(run->output, 0, run->layout.bytes);  // the counts of the clouds
  }
  return VX_OK;
}

enum vx_status cuda_finish_found(struct cuda_found *found, struct error *error) {
  struct cuda_run *run = found->run;
  CUDA_TRY(cuda_suppress(run, &found->suppression, error));
  CUDA_TRY(settle(found, error));
  CUDA_TRY(read_sizes(run, error));
  if (run->tensors == 0) {
    return cuda_clean(run, error);
  }
  CUDA_TRY(cuda_take_output(run, error));
  if (run->layout.bytes > 0) {
    CUDA_TRY(cuda_reserve(run->lane, &run->lane->image, run->layout.bytes, error));
    CUDA_TRY(write(found, error));
  }
  return cuda_finish_output(run, error);
}
