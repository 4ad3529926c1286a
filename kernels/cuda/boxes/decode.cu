// Decoding of an anchor head on a GPU. decode.h defines the operation, boxes.cuh its steps.
//
// A segment is a group of a cloud. A key has the number of a logit in its cloud. A box is decoded when its candidate is
// found, since an invalid box has no rank, and again once it is ranked. So a candidate needs no memory but its key.
//
// If a group may have several candidates of one anchor, the anchors are ranked first, each by its best candidate. Then
// all candidates of the ranked anchors are ranked.
#include "kernels/cuda/boxes/boxes.cuh"

#include <string.h>

#include "kernels/anchors.h"
#include "kernels/cuda/boxes/find.cuh"

enum { MAKE_BLOCK = 128, EXPAND_BLOCK = 512 };

struct anchor_head : cuda_found {
  struct vx_decode params;   // with at least one task
  uint32_t logits, anchors;  // of a cell
  uint32_t height, width;
  uint32_t per_cloud;     // logits
  uint32_t most_anchors;  // maximum ranked anchors of a segment
  bool shared;            // several candidates of an anchor may belong to a group
  float least;            // least logit of a candidate; above -inf
  unsigned char group_of[VX_MAX_CLASSES];
};

// A logit of a cloud, and its anchor.
struct logit {
  uint32_t cell, label, index;  // index: of the anchor in the cloud
  uint64_t first;               // first logit of the anchor, in the map
  struct vx_anchor anchor;
};

static __device__ struct logit logit_of(const struct anchor_head &head, uint32_t cloud, uint32_t number) {
  struct logit own;
  uint32_t within = number % head.logits;
  own.cell = number / head.logits;
  own.anchor = vx_anchor_of(&head.params, (int32_t)within);
  own.label = (uint32_t)own.anchor.first_class + within - (uint32_t)own.anchor.first;
  own.index = own.cell * head.anchors + (uint32_t)own.anchor.number;
  own.first = (uint64_t)cloud * head.per_cloud + (uint64_t)own.cell * head.logits + (uint32_t)own.anchor.first;
  return own;
}

static __device__ void make_box(const struct anchor_head &head, uint32_t cloud, const struct logit &own,
                                float box[VX_MOVING_BOX_VALUES]) {
  const struct cuda_map &bin_map = head.maps[VX_DIR_CLS_PREDS];
  uint64_t flat = (uint64_t)cloud * (head.per_cloud / head.logits) * head.anchors + own.index;
  uint32_t values = (uint32_t)vx_code_values(&head.params);
  float x = vx_anchor_place(&head.params, 0, own.cell % head.width, head.width);
  float y = vx_anchor_place(&head.params, 1, own.cell / head.width, head.height);
  float moves[VX_MAX_CODE_VALUES];
#pragma unroll
  for (uint32_t i = 0; i < VX_MAX_CODE_VALUES; i++)
    moves[i] = i < values ? cuda_map_value(head.maps[VX_BOX_PREDS], flat * values + i) : 0;
  vx_decode_box(&head.params, own.anchor.number, x, y, moves, box);
  if (bin_map.values) {
    uint32_t bins = (uint32_t)head.params.dir_bins;
    box[6] = vx_turn_heading(&head.params, box[6], (int32_t)cuda_first_largest(bin_map, flat * bins, bins));
  }
}

// ---- find -----------------------------------------------------------------------------------------------------------

static __device__ struct cuda_finding cuda_judge(const struct anchor_head &head, uint64_t at) {
  struct cuda_finding finding = {};
  uint32_t cloud = (uint32_t)(at / head.per_cloud), number = (uint32_t)(at % head.per_cloud);
  struct logit own = logit_of(head, cloud, number);
  bool all = head.params.labels == VX_LABELS_ALL;
  finding.logit = cuda_map_value(head.maps[VX_CLS_PREDS], at);
  bool best =
      (all && !head.shared) || cuda_is_best(head.maps[VX_CLS_PREDS], own.first, (uint32_t)own.anchor.num_classes,
                                            own.label - (uint32_t)own.anchor.first_class, finding.logit);
  if (!best && !all) return finding;
  float box[VX_MOVING_BOX_VALUES];
  uint32_t group = head.group_of[own.label];
  finding.segment = cloud * head.groups + group;
  finding.first = cloud * head.group_first[head.groups] + head.group_first[group];
  finding.number = number;
  make_box(head, cloud, own, box);
  finding.invalid = !vx_is_valid_anchor(box);
  finding.listed = best && !finding.invalid;
  finding.waits = head.shared && !finding.invalid;
  return finding;
}

// ---- expand ---------------------------------------------------------------------------------------------------------

// Called by a whole block. Replaces the keys of a segment by the keys of all candidates of its ranked anchors. Returns
// their number.
static __device__ uint32_t expand(const struct anchor_head &head, uint32_t segment) {
  const uint64_t *ranked = head.ranked + cuda_ranked_begin(head.segments, head.most_anchors, segment);
  uint64_t *keys = head.keys + cuda_segment_begin(head.segments, segment);
  uint32_t count = min(head.num_found[segment], head.most_anchors), made = 0, cloud = segment / head.groups;
  for (uint32_t begin = 0; begin < count; begin += EXPAND_BLOCK) {
    uint32_t rank = begin + threadIdx.x, own_count = 0, more;
    uint32_t number = rank < count ? min((uint32_t)ranked[rank], head.per_cloud - 1) : 0;  // undefined if stopped
    struct logit own = logit_of(head, cloud, number);
    uint32_t classes = rank < count ? (uint32_t)own.anchor.num_classes : 0;
    for (uint32_t i = 0; i < classes; i++)
      own_count += cuda_map_value(head.maps[VX_CLS_PREDS], own.first + i) >= head.least;
    uint32_t place = made + cuda_block_before(own_count, &more), first = (uint32_t)(own.first % head.per_cloud);
    for (uint32_t i = 0; i < classes; i++) {
      float logit = cuda_map_value(head.maps[VX_CLS_PREDS], own.first + i);
      if (logit >= head.least) keys[place++] = (uint64_t)vx_rank_key(logit) << 32 | (first + i);
    }
    made += more;
  }
  return made;
}

static __global__ void __launch_bounds__(EXPAND_BLOCK)
    expand_kernel(const __grid_constant__ struct cuda_view v, const __grid_constant__ struct anchor_head head) {
  cuda_wait();
  uint32_t made = expand(head, blockIdx.x);
  if (threadIdx.x == 0) {
    head.num_made[blockIdx.x] = made;
    atomicSub(&v.counters->over_pre_max, made);
  }
}

// Ranks the anchors, then the candidates of the ranked anchors.
static enum vx_status rank_twice(const struct cuda_run *run, const struct anchor_head *head,
                                 struct cuda_ranking ranking, struct error *error) {
  uint32_t most = ranking.most;
  ranking.most = head->most_anchors;
  CUDA_TRY(cuda_rank(run, &ranking, error));
  CUDA_TRY(cuda_launch("expand_kernel", expand_kernel, head->segments.count, EXPAND_BLOCK, 0, run, error, *run, *head));
  ranking.most = most;
  ranking.counts = head->num_made;
  return cuda_rank(run, &ranking, error);
}

// ---- make -----------------------------------------------------------------------------------------------------------

static __global__ void __launch_bounds__(MAKE_BLOCK)
    make_anchors_kernel(const __grid_constant__ struct cuda_view v, const __grid_constant__ struct anchor_head head) {
  cuda_wait();
  uint32_t most = min(head.most_ranked, head.segments.largest);
  const uint32_t *counts = head.some_left_out ? head.num_made : head.num_found;
  uint64_t places = (uint64_t)head.segments.count * most, step = (uint64_t)gridDim.x * MAKE_BLOCK;
  for (uint64_t i = (uint64_t)blockIdx.x * MAKE_BLOCK + threadIdx.x; i < places; i += step) {
    uint32_t segment = (uint32_t)(i / most), rank = (uint32_t)(i % most), cloud = segment / head.groups;
    if (rank < counts[segment]) {
      uint64_t at = cuda_ranked_begin(head.segments, head.most_ranked, segment) + rank;
      uint32_t number = min((uint32_t)head.ranked[at], head.per_cloud - 1);  // undefined if the job was stopped
      struct logit own = logit_of(head, cloud, number);
      float box[VX_MOVING_BOX_VALUES];
      make_box(head, cloud, own, box);
      cuda_store_box(head, at, box);
      head.labels[at] = (int32_t)own.label;
      head.indices[at] = (int32_t)own.index;
    }
  }
  __syncthreads();
  if (threadIdx.x == 0) atomicMax((unsigned long long *)&v.counters->moments[CUDA_DECODED], cuda_now());
}

static enum vx_status make(const struct cuda_run *run, const struct anchor_head *head, struct error *error) {
  uint64_t most = (uint64_t)head->segments.count * min(head->most_ranked, head->segments.largest);
  unsigned blocks = cuda_looping_blocks(run, most, MAKE_BLOCK, 8);
  return cuda_launch("make_anchors_kernel", make_anchors_kernel, blocks, MAKE_BLOCK, 0, run, error, *run, *head);
}

// ---- the job --------------------------------------------------------------------------------------------------------

// A group has a key for each anchor of its task or, if an anchor's logits share the group, for each logit.
static void lay_out_groups(struct anchor_head *head, const struct vx_head_groups *groups) {
  uint32_t cells = head->height * head->width, first = 0;
  head->groups = (uint32_t)groups->count;
  for (int32_t group = 0; group < groups->count; group++) {
    int32_t task = groups->task[group], classes = head->shared ? head->params.tasks.classes[task] : 1;
    head->group_first[group] = first;
    first += cells * (uint32_t)(head->params.task_sizes[task] * head->params.num_rotations * classes);
  }
  head->group_first[groups->count] = first;
  memcpy(head->group_of, groups->of_class, sizeof head->group_of);
}

static struct anchor_head head_of(const struct vx_decode *params, const struct vx_sizes *sizes) {
  struct anchor_head head = {};
  int32_t most_classes = 1;
  head.params = vx_with_tasks(params, sizes->logits);
  head.shared = params->labels == VX_LABELS_ALL && params->nms_groups == VX_GROUP_TASK;
  for (int32_t task = 0; head.shared && task < head.params.tasks.count; task++)
    most_classes = max(most_classes, head.params.tasks.classes[task]);
  struct vx_head_groups groups = vx_head_groups_of(&head.params.tasks, (enum vx_nms_groups)params->nms_groups);
  head.anchors = (uint32_t)vx_cell_anchors(params);
  head.logits = (uint32_t)sizes->logits;
  head.height = (uint32_t)sizes->height;
  head.width = (uint32_t)sizes->width;
  head.per_cloud = head.height * head.width * head.logits;
  head.values = (uint32_t)sizes->decoded;
  head.least = max(vx_least_logit(params->score_threshold, false), -FLT_MAX);
  head.most_anchors = (uint32_t)params->nms.pre_max;
  head.most_ranked = head.most_anchors * (uint32_t)most_classes;
  head.some_left_out = head.shared;
  lay_out_groups(&head, &groups);
  return head;
}

enum vx_status cuda_decode(struct cuda_run *run, struct error *error) {
  if (run->clouds.num_points == 0) return cuda_write_none(run, error);
  struct vx_sizes sizes = vx_sizes_of(run->job);
  struct anchor_head head = head_of(&run->job->params.decode, &sizes);
  struct cuda_found_parts parts = {};
  struct vx_nms nms = head.params.nms;
  nms.pre_max = (int32_t)head.most_ranked;
  CUDA_TRY(cuda_prepare_found(run, &nms, &head, &parts, error));
  CUDA_TRY(cuda_find(run, head, head.least, error));
  CUDA_TRY(head.shared ? rank_twice(run, &head, parts.ranking, error) : cuda_rank(run, &parts.ranking, error));
  CUDA_TRY(make(run, &head, error));
  return cuda_finish_found(run, &head, &parts.suppression, error);
}
