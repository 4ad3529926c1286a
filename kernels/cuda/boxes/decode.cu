// Decoding of an anchor head on a GPU: decode.h says what it computes, found.cuh in which steps. Runs on the thread
// that has the lane.
//
// A candidate's box is made twice: when it is found, as one that is not valid has no rank, and again once it is ranked.
// So candidates leave nothing but their keys.
#include "kernels/cuda/boxes/decode.cuh"

#include "kernels/anchors.h"
#include "kernels/cuda/boxes/find.cuh"

enum { MAKE_BLOCK = 128 };

struct anchor_head {
  struct vx_decode params;
  struct cuda_map logits, moves, bins;
  uint32_t classes, anchors;  // of a cell
  uint32_t height, width;
  uint32_t per_cloud;  // anchors
};

// Makes the box of an anchor of a cloud.
static __device__ void make_box(const struct anchor_head &head, uint32_t cloud, uint32_t number,
                                float box[VX_BOX_VALUES]) {
  uint32_t cell = number / head.anchors;
  uint64_t flat = (uint64_t)cloud * head.per_cloud + number;
  float x = vx_anchor_place(&head.params, 0, cell % head.width, head.width);
  float y = vx_anchor_place(&head.params, 1, cell / head.width, head.height);
  float moves[VX_BOX_VALUES];
#pragma unroll
  for (int i = 0; i < VX_BOX_VALUES; i++) {
    moves[i] = cuda_map_value(head.moves, flat * VX_BOX_VALUES + i);
  }
  vx_decode_box(&head.params, (int32_t)(number % head.anchors), x, y, moves, box);
  if (head.bins.values != NULL) {
    uint32_t bins = (uint32_t)head.params.dir_bins;
    box[6] = vx_turn_heading(&head.params, box[6], (int32_t)cuda_first_largest(head.bins, flat * bins, bins));
  }
}

// --- find ---

// Whether no logit of the anchor is better than that of the class, and none before it as good. NaN is neither.
static __device__ bool is_best(const struct anchor_head &head, uint64_t first, uint32_t label, float logit) {
  bool best = true;
  for (uint32_t i = 0; i < head.classes && best; i++) {
    float other = cuda_map_value(head.logits, first + i);
    best = !(i < label ? other >= logit : other > logit);
  }
  return best;
}

static __device__ struct cuda_finding cuda_judge(const struct anchor_head &head, uint64_t at) {
  struct cuda_finding found = {};
  uint64_t anchor = at / head.classes;
  uint32_t label = (uint32_t)(at % head.classes), cloud = (uint32_t)(anchor / head.per_cloud);
  found.logit = cuda_map_value(head.logits, at);
  if (!is_best(head, anchor * head.classes, label, found.logit)) {
    return found;
  }
  float box[VX_BOX_VALUES];
  found.segment = cloud;
  found.first = cloud * head.per_cloud;
  found.number = (uint32_t)(anchor % head.per_cloud);
  make_box(head, cloud, found.number, box);
  found.listed = vx_is_valid_box(box, 0);
  found.invalid = !found.listed;
  return found;
}

// --- make ---

struct make_params {
  struct anchor_head head;
  struct cuda_segments clouds;
  uint32_t most;           // boxes of a cloud
  const uint64_t *ranked;  // as cuda_ranked_begin has them, like all that follows
  const uint32_t *num_found;
  float *boxes;
  int32_t *labels;
  struct cuda_tally *tally;
};

static __global__ void __launch_bounds__(MAKE_BLOCK) make_anchors_kernel(const __grid_constant__ struct make_params p) {
  cuda_wait();
  uint64_t places = (uint64_t)p.clouds.count * p.most, step = (uint64_t)gridDim.x * MAKE_BLOCK;
  for (uint64_t i = (uint64_t)blockIdx.x * MAKE_BLOCK + threadIdx.x; i < places; i += step) {
    uint32_t cloud = (uint32_t)(i / p.most), rank = (uint32_t)(i % p.most);
    if (rank < p.num_found[cloud]) {
      uint64_t at = cuda_ranked_begin(p.clouds, p.most, cloud) + rank;
      uint32_t number = min((uint32_t)p.ranked[at], p.head.per_cloud - 1);  // if the job was stopped, it is anything
      uint64_t anchor = (uint64_t)cloud * p.head.per_cloud + number;
      make_box(p.head, cloud, number, p.boxes + at * VX_BOX_VALUES);
      p.labels[at] = (int32_t)cuda_first_largest(p.head.logits, anchor * p.head.classes, p.head.classes);
    }
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    atomicMax((unsigned long long *)&p.tally->moments[CUDA_DECODED], cuda_now());
  }
}

static enum vx_status make(const struct cuda_found *found, const struct anchor_head *head, struct error *error) {
  struct make_params p = {};
  p.head = *head;
  p.clouds = found->segments;
  p.most = min(found->most_ranked, head->per_cloud);
  p.ranked = found->ranked;
  p.num_found = found->num_found;
  p.boxes = found->boxes;
  p.labels = found->labels;
  p.tally = found->run->tally;
  unsigned blocks = cuda_looping_blocks(found->run, (uint64_t)p.clouds.count * p.most, MAKE_BLOCK, 8);
  return cuda_launch("make_anchors_kernel", make_anchors_kernel, blocks, MAKE_BLOCK, 0, found->run, p, error);
}

// --- the job ---

static struct anchor_head head_of(const struct cuda_found *found, const struct vx_sizes *sizes) {
  const struct vx_decode *params = &found->run->job->params.decode;
  struct anchor_head head = {};
  head.params = *params;
  head.logits = found->maps[VX_CLS_PREDS];
  head.moves = found->maps[VX_BOX_PREDS];
  head.bins = found->maps[VX_DIR_CLS_PREDS];
  head.anchors = (uint32_t)(params->num_sizes * params->num_rotations);
  head.classes = (uint32_t)sizes->logits / head.anchors;
  head.height = (uint32_t)sizes->height;
  head.width = (uint32_t)sizes->width;
  head.per_cloud = found->task_first[1];
  return head;
}

enum vx_status cuda_decode(struct cuda_run *run, struct error *error) {
  if (run->num_points == 0) {
    return cuda_write_none(run, error);
  }
  const struct vx_decode *params = &run->job->params.decode;
  struct vx_sizes sizes = vx_sizes_of(run->job);
  struct cuda_found found = {};
  found.run = run;
  found.nms = params->nms;
  found.values = VX_BOX_VALUES;
  found.tasks = 1;
  found.task_first[1] = (uint32_t)(sizes.rows / sizes.clouds);
  found.most_ranked = (uint32_t)params->nms.pre_max;
  CUDA_TRY(cuda_prepare_found(&found, error));
  struct anchor_head head = head_of(&found, &sizes);
  CUDA_TRY(cuda_find(&found, head, vx_least_logit(params->score_threshold, false), error));
  CUDA_TRY(cuda_rank(run, &found.ranking, error));
  CUDA_TRY(make(&found, &head, error));
  return cuda_finish_found(&found, error);
}
