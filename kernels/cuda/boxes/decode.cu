// Decoding of an anchor head on a GPU. decode.h defines the operation, boxes.cuh its steps. Runs on the thread that has
// the lane.
//
// A candidate's box is decoded twice: when the candidate is found, since an invalid box has no rank, and again once it
// is ranked. So a candidate needs no memory but its key.
#include "kernels/cuda/boxes/boxes.cuh"

#include "kernels/anchors.h"
#include "kernels/cuda/boxes/find.cuh"

enum { MAKE_BLOCK = 128 };

struct anchor_head : cuda_found {
  struct vx_decode params;
  uint32_t classes, anchors;  // of a cell
  uint32_t height, width;
  uint32_t per_cloud;  // anchors
};

// Decodes the box of a cloud's anchor.
static __device__ void make_box(const struct anchor_head &head, uint32_t cloud, uint32_t number,
                                float box[VX_MOVING_BOX_VALUES]) {
  const struct cuda_map &bin_map = head.maps[VX_DIR_CLS_PREDS];
  uint32_t cell = number / head.anchors;
  uint64_t flat = (uint64_t)cloud * head.per_cloud + number;
  float x = vx_anchor_place(&head.params, 0, cell % head.width, head.width);
  float y = vx_anchor_place(&head.params, 1, cell / head.width, head.height);
  float moves[VX_MOVING_BOX_VALUES];
#pragma unroll
  for (uint32_t i = 0; i < VX_MOVING_BOX_VALUES; i++)
    moves[i] = i < head.values ? cuda_map_value(head.maps[VX_BOX_PREDS], flat * head.values + i) : 0;
  vx_decode_box(&head.params, (int32_t)(number % head.anchors), x, y, moves, box);
  if (bin_map.values) {
    uint32_t bins = (uint32_t)head.params.dir_bins;
    box[6] = vx_turn_heading(&head.params, box[6], (int32_t)cuda_first_largest(bin_map, flat * bins, bins));
  }
}

// ---- find -----------------------------------------------------------------------------------------------------------

// Whether no logit of the anchor is above that of the class, and no earlier one equals it. NaN is neither.
static __device__ bool is_best(const struct cuda_map &logits, uint64_t first, uint32_t classes, uint32_t label,
                               float logit) {
  bool best = true;
  for (uint32_t i = 0; i < classes && best; i++) {
    float other = cuda_map_value(logits, first + i);
    best = !(i < label ? other >= logit : other > logit);
  }
  return best;
}

static __device__ struct cuda_finding cuda_judge(const struct anchor_head &head, uint64_t at) {
  struct cuda_finding finding = {};
  uint64_t anchor = at / head.classes;
  uint32_t label = (uint32_t)(at % head.classes), cloud = (uint32_t)(anchor / head.per_cloud);
  finding.logit = cuda_map_value(head.maps[VX_CLS_PREDS], at);
  if (!is_best(head.maps[VX_CLS_PREDS], anchor * head.classes, head.classes, label, finding.logit)) return finding;
  float box[VX_MOVING_BOX_VALUES];
  finding.segment = cloud;
  finding.first = cloud * head.per_cloud;
  finding.number = (uint32_t)(anchor % head.per_cloud);
  make_box(head, cloud, finding.number, box);
  finding.listed = vx_is_valid_anchor(box);
  finding.invalid = !finding.listed;
  return finding;
}

// ---- make -----------------------------------------------------------------------------------------------------------

static __global__ void __launch_bounds__(MAKE_BLOCK)
    make_anchors_kernel(const __grid_constant__ struct cuda_view v, const __grid_constant__ struct anchor_head head) {
  cuda_wait();
  uint32_t most = min(head.most_ranked, head.per_cloud);
  uint64_t places = (uint64_t)head.segments.count * most, step = (uint64_t)gridDim.x * MAKE_BLOCK;
  for (uint64_t i = (uint64_t)blockIdx.x * MAKE_BLOCK + threadIdx.x; i < places; i += step) {
    uint32_t cloud = (uint32_t)(i / most), rank = (uint32_t)(i % most);
    if (rank < head.num_found[cloud]) {
      uint64_t at = cuda_ranked_begin(head.segments, most, cloud) + rank;
      uint32_t number = min((uint32_t)head.ranked[at], head.per_cloud - 1);  // undefined if the job was stopped
      uint64_t anchor = (uint64_t)cloud * head.per_cloud + number;
      float box[VX_MOVING_BOX_VALUES];
      make_box(head, cloud, number, box);
      cuda_store_box(head, at, box);
      head.labels[at] = (int32_t)cuda_first_largest(head.maps[VX_CLS_PREDS], anchor * head.classes, head.classes);
    }
  }
  __syncthreads();
  if (threadIdx.x == 0) atomicMax((unsigned long long *)&v.counters->moments[CUDA_DECODED], cuda_now());
}

static enum vx_status make(const struct cuda_run *run, const struct anchor_head *head, struct error *error) {
  uint64_t most = (uint64_t)head->segments.count * min(head->most_ranked, head->per_cloud);
  unsigned blocks = cuda_looping_blocks(run, most, MAKE_BLOCK, 8);
  return cuda_launch("make_anchors_kernel", make_anchors_kernel, blocks, MAKE_BLOCK, 0, run, error, *run, *head);
}

// ---- the job --------------------------------------------------------------------------------------------------------

static struct anchor_head head_of(const struct vx_decode *params, const struct vx_sizes *sizes) {
  struct anchor_head head = {};
  head.params = *params;
  head.anchors = (uint32_t)(params->num_sizes * params->num_rotations);
  head.classes = (uint32_t)sizes->logits / head.anchors;
  head.height = (uint32_t)sizes->height;
  head.width = (uint32_t)sizes->width;
  head.per_cloud = (uint32_t)(sizes->rows / sizes->clouds);
  head.values = (uint32_t)sizes->decoded;
  head.tasks = 1;
  head.task_first[1] = head.per_cloud;
  head.most_ranked = (uint32_t)params->nms.pre_max;
  return head;
}

enum vx_status cuda_decode(struct cuda_run *run, struct error *error) {
  if (run->clouds.num_points == 0) return cuda_write_none(run, error);
  const struct vx_decode *params = &run->job->params.decode;
  struct vx_sizes sizes = vx_sizes_of(run->job);
  struct anchor_head head = head_of(params, &sizes);
  struct cuda_found_parts parts = {};
  CUDA_TRY(cuda_prepare_found(run, &params->nms, &head, &parts, error));
  CUDA_TRY(cuda_find(run, head, vx_least_logit(params->score_threshold, false), error));
  CUDA_TRY(cuda_rank(run, &parts.ranking, error));
  CUDA_TRY(make(run, &head, error));
  return cuda_finish_found(run, &head, &parts.suppression, error);
}
