// Non-maximum suppression on a GPU:
//
//   judge  Brings the boxes from the host. Each valid box leaves a key that ranks it.
//   then rank.cu and suppress.cu
//   pack   Writes the rows of the kept boxes into the image, and tells the host their number.
//
// The image has one tensor, so its place is known before any count.
#include "kernels/cuda/boxes/boxes.cuh"

#include "kernels/cuda/base/host.cuh"
#include "kernels/cuda/base/publish.cuh"
#include "kernels/cuda/base/transfer.cuh"
#include "kernels/rank.h"

enum { WARP = 32, BLOCK = 256 };

struct nms {
  const float *boxes, *scores;  // host, or copies
  const int32_t *labels;        // host, or copies; or NULL
  struct cuda_ranking ranking;
  struct cuda_suppression suppression;  // with these boxes and labels, or copies
};

// ---- judge ----------------------------------------------------------------------------------------------------------

// Called by a whole block. Brings `count` boxes from `first` on to `rows`. Copies them and their labels for the
// suppression, unless it uses the originals.
static __device__ void bring_boxes(const struct nms &nms, uint64_t first, uint32_t count, float *rows) {
  uint64_t begin = first * VX_BOX_VALUES;
  float values[VX_BOX_VALUES], *kept = nms.suppression.boxes;
#pragma unroll
  for (uint32_t k = 0; k < VX_BOX_VALUES; k++) {
    uint32_t i = k * BLOCK + threadIdx.x;
    values[k] = i < count * VX_BOX_VALUES ? nms.boxes[begin + i] : 0.0f;
  }
#pragma unroll
  for (uint32_t k = 0; k < VX_BOX_VALUES; k++) {
    uint32_t i = k * BLOCK + threadIdx.x;
    rows[i] = values[k];
    if (i < count * VX_BOX_VALUES && kept != nms.boxes) kept[begin + i] = values[k];
  }
  if (threadIdx.x < count && nms.suppression.labels != nms.labels)
    nms.suppression.labels[first + threadIdx.x] = nms.labels[first + threadIdx.x];
}

// Called by a whole warp. Adds the key of each valid box to the keys of its cloud. Usually a warp has one cloud.
static __device__ void list_keys(const struct cuda_view &v, const struct cuda_ranking &ranking, uint32_t row,
                                 bool valid, float score) {
  uint32_t lane = threadIdx.x % WARP;
  int32_t cloud = valid ? cuda_cloud_of_point(v.clouds, row) : 0;
  for (uint32_t left = __ballot_sync(~0u, valid); left != 0;) {
    int leader = __ffs(left) - 1;
    int32_t one = __shfl_sync(~0u, cloud, leader);
    bool mine = valid && cloud == one;
    uint32_t all = __ballot_sync(~0u, mine), begin = 0;
    if (lane == (uint32_t)leader) begin = atomicAdd(&ranking.counts[one], __popc(all));
    begin = __shfl_sync(~0u, begin, leader);
    if (mine) {
      uint32_t first = v.clouds.count == 1 ? 0 : v.clouds.first_point[one];
      uint64_t at = (uint64_t)first + begin + __popc(all & ((1u << lane) - 1));
      ranking.keys[at] = (uint64_t)vx_rank_key(score) << 32 | (row - first);
    }
    left &= ~all;
  }
}

static __global__ void __launch_bounds__(BLOCK)
    judge_boxes_kernel(const __grid_constant__ struct cuda_view v, const __grid_constant__ struct nms nms) {
  __shared__ float rows[BLOCK * VX_BOX_VALUES];
  cuda_wait_alone();
  if (blockIdx.x == 0 && threadIdx.x == 0) v.counters->moments[CUDA_BEGUN] = cuda_now();
  uint32_t invalid = 0;  // of the warp
  for (uint64_t first = (uint64_t)blockIdx.x * BLOCK; first < v.clouds.num_points;
       first += (uint64_t)gridDim.x * BLOCK) {
    uint32_t count = (uint32_t)min((uint64_t)BLOCK, v.clouds.num_points - first);
    bool here = threadIdx.x < count;
    float score = here ? nms.scores[first + threadIdx.x] : 0.0f;
    bring_boxes(nms, first, count, rows);
    __syncthreads();
    bool valid = here && vx_is_valid_box(rows + threadIdx.x * VX_BOX_VALUES, score);
    list_keys(v, nms.ranking, (uint32_t)first + threadIdx.x, valid, score);
    invalid += __popc(__ballot_sync(~0u, here && !valid));
    __syncthreads();
  }
  cuda_let_next();
  if (threadIdx.x % WARP == 0) atomicAdd(&v.counters->invalid, invalid);
  if (threadIdx.x == 0) atomicMax((unsigned long long *)&v.counters->moments[CUDA_ARRIVED], cuda_now());
}

static enum vx_status judge(const struct cuda_run *run, const struct nms *nms, struct error *error) {
  unsigned blocks = cuda_looping_blocks(run, run->clouds.num_points, BLOCK, 4);
  return cuda_launch("judge_boxes_kernel", judge_boxes_kernel, blocks, BLOCK, 0, run, error, *run, *nms);
}

// ---- pack -----------------------------------------------------------------------------------------------------------

// Called by a whole block. The number of kept boxes of all segments before `segment`.
static __device__ uint32_t kept_before(const uint32_t *num_kept, uint32_t segment) {
  __shared__ uint32_t sum;
  if (threadIdx.x == 0) sum = 0;
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < segment; i += BLOCK) atomicAdd(&sum, num_kept[i]);
  __syncthreads();
  return sum;
}

// `rows`: out; NULL if rows are only counted.
static __global__ void __launch_bounds__(BLOCK)
    pack_kernel(const __grid_constant__ struct cuda_view v, const __grid_constant__ struct cuda_suppression s,
                uint32_t slices, int32_t *rows) {
  cuda_wait();
  uint32_t segment = blockIdx.x / slices;
  uint64_t at = cuda_ranked_begin(s.segments, (uint32_t)s.nms.pre_max, segment);
  uint64_t first = cuda_segment_begin(s.segments, segment);
  uint32_t before = kept_before(s.num_kept, segment), begin = blockIdx.x % slices * BLOCK + threadIdx.x;
  uint32_t count = rows ? s.num_kept[segment] : 0;
  for (uint32_t i = begin; i < count; i += slices * BLOCK)
    rows[(uint64_t)before + i] = (int32_t)(first + (uint32_t)s.ranked[at + s.kept[at + i]]);
  if (cuda_last_block(&v.counters->order_ticket, gridDim.x)) publish(v, v.sequence);
}

static enum vx_status pack(const struct cuda_run *run, const struct cuda_suppression *s, struct error *error) {
  uint32_t most = min(s->segments.largest, (uint32_t)s->nms.post_max);
  uint32_t slices = cuda_slices(run, s->segments, most, BLOCK, 2);
  int32_t *rows = run->tensors == 0 ? NULL : (int32_t *)run->lane->image.memory;
  return cuda_launch("pack_kernel", pack_kernel, (uint64_t)s->segments.count * slices, BLOCK, 0, run, error, *run, *s,
                     slices, rows);
}

// ---- the job --------------------------------------------------------------------------------------------------------

static struct cuda_segments segments_of(const struct cuda_run *run) {
  struct cuda_segments segments = {(uint32_t)run->clouds.count, 0, run->clouds.num_points, NULL};
  for (int32_t cloud = 0; cloud < run->clouds.count; cloud++)
    segments.largest = max(segments.largest, (uint32_t)run->job->point_counts[cloud]);
  return segments;
}

static bool has_labels(const struct cuda_run *run) {
  return !run->job->params.nms.class_agnostic && run->inputs[VX_LABELS].bytes > 0;
}

static void lay_out(struct cuda_run *run, struct nms *nms, struct cuda_arena *arena) {
  cuda_take_inputs(run, arena);
  cuda_take_clouds(run, arena);
  nms->ranking.segments.first = nms->suppression.segments.first = run->clouds.first_point;
  if (run->inputs[VX_BOXES].data)
    take(arena, &nms->suppression.boxes, (uint64_t)run->clouds.num_points * VX_BOX_VALUES);
  if (has_labels(run) && run->inputs[VX_LABELS].data) take(arena, &nms->suppression.labels, run->clouds.num_points);
  take(arena, &nms->ranking.keys, run->clouds.num_points);
  cuda_take_ranking(&nms->ranking, arena);
  cuda_take_suppression(&nms->suppression, arena);
}

// The counts of keys lie in control->tiles, which is zero when a job begins.
static enum vx_status prepare(struct cuda_run *run, struct nms *nms, struct error *error) {
  struct cuda_suppression *s = &nms->suppression;
  struct cuda_arena measured = {}, arena = {};
  CUDA_TRY(cuda_see_inputs(run, error));
  s->nms = run->job->params.nms;
  s->segments = nms->ranking.segments = segments_of(run);
  s->values = VX_BOX_VALUES;
  nms->ranking.most = (uint32_t)s->nms.pre_max;
  lay_out(run, nms, &measured);
  CUDA_TRY(cuda_reserve(run->lane, &run->lane->scratch, measured.used, error));
  arena.memory = run->lane->scratch.memory;
  lay_out(run, nms, &arena);
  if (run->tensors != 0) {
    uint64_t most = cuda_ranked_room(s->segments, (uint32_t)min(s->nms.pre_max, s->nms.post_max));
    CUDA_TRY(cuda_reserve(run->lane, &run->lane->image, most * sizeof(int32_t), error));
  }
  run->num_tiles = cuda_blocks(s->segments.count, sizeof(uint64_t) / sizeof(uint32_t));
  run->slow = true;
  CUDA_TRY(cuda_prepare_control(run, error));
  s->counts = nms->ranking.counts = (uint32_t *)run->control->tiles;
  s->ranked = nms->ranking.ranked;
  s->num_kept = run->control->cloud_rows;
  return VX_OK;
}

// Brings the inputs that the first kernel does not bring.
static enum vx_status fetch(struct cuda_run *run, struct nms *nms, struct error *error) {
  struct cuda_suppression *s = &nms->suppression;
  if (run->clouds.count > 1) CUDA_TRY(cuda_fetch_clouds(run, error));
  CUDA_TRY(cuda_copy_inputs(run, error));
  nms->boxes = (const float *)run->inputs[VX_BOXES].data;
  nms->scores = (const float *)run->inputs[VX_SCORES].data;
  nms->labels = has_labels(run) ? (const int32_t *)run->inputs[VX_LABELS].data : NULL;
  s->boxes = s->boxes ? s->boxes : (float *)nms->boxes;
  s->labels = s->labels ? s->labels : (int32_t *)nms->labels;
  return VX_OK;
}

static enum vx_status read_sizes(struct cuda_run *run, struct error *error) {
  CUDA_TRY(cuda_await(run, &run->lane->status->sized, run->sequence, error));
  run->sizes = ((const struct cuda_device_status *)run->lane->status)->counters;
  struct vx_job *job = run->job;
  job->counts.kept = run->sizes.kept;
  job->counts.invalid = run->sizes.invalid;
  job->counts.over_pre_max = run->sizes.over_pre_max;
  job->counts.suppressed = run->sizes.suppressed;
  job->counts.over_post_max = run->sizes.over_post_max;
  for (int32_t cloud = 0; cloud < job->num_clouds; cloud++)
    job->row_counts[cloud] = (int32_t)run->lane->status->cloud_rows[cloud];
  const uint64_t *moments = run->sizes.moments;
  job->stage_ns[VX_STAGE_COPY_IN] = (int64_t)(moments[CUDA_ARRIVED] - moments[CUDA_BEGUN]);
  job->stage_ns[VX_STAGE_NMS] = (int64_t)(moments[CUDA_FOUND] - moments[CUDA_ARRIVED]);
  return VX_OK;
}

enum vx_status cuda_nms(struct cuda_run *run, struct error *error) {
  if (run->clouds.num_points == 0) return run->tensors == 0 ? VX_OK : cuda_take_output(run, error);
  struct nms nms = {};
  CUDA_TRY(prepare(run, &nms, error));
  CUDA_TRY(fetch(run, &nms, error));
  CUDA_TRY(judge(run, &nms, error));
  CUDA_TRY(cuda_rank(run, &nms.ranking, error));
  CUDA_TRY(cuda_suppress(run, &nms.suppression, error));
  CUDA_TRY(pack(run, &nms.suppression, error));
  CUDA_TRY(read_sizes(run, error));
  if (run->tensors == 0) return cuda_clean(run, error);
  CUDA_TRY(cuda_take_output(run, error));
  return cuda_finish_output(run, error);
}
