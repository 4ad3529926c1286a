// Decoding of a centre head on a GPU. center.h defines the operation, boxes.cuh its steps.
//
// A segment is a task of a cloud. All candidates are ranked. When boxes are decoded, one block per segment removes the
// candidates that are invalid or outside. If scores are rectified, it also makes new keys for the others. These are
// ranked again, and a second pass decodes their boxes again.
#include "kernels/cuda/boxes/boxes.cuh"

#include <string.h>

#include "kernels/centers.h"
#include "kernels/cuda/boxes/find.cuh"

enum { MAKE_BLOCK = 512 };

struct center_head : cuda_found {
  struct vx_decode_center params;
  uint32_t classes, cells, width;
  struct vx_head_groups tasks;
  uint32_t *num_listed;  // [segments]: number of ranked candidates, before max_objects
  bool rectifying;       // this pass makes the keys of rectified scores
};

// ---- find -----------------------------------------------------------------------------------------------------------

static __device__ struct cuda_finding cuda_judge(const struct center_head &head, uint64_t at) {
  struct cuda_finding finding = {};
  uint64_t flat = at / head.classes;  // the cell's number among the cells of all clouds
  uint32_t label = (uint32_t)(at % head.classes), cloud = (uint32_t)(flat / head.cells),
           task = head.tasks.of_class[label];
  finding.logit = cuda_map_value(head.maps[VX_HEATMAP], at);
  uint32_t first = (uint32_t)head.tasks.first[task], count = (uint32_t)head.tasks.first[task + 1] - first;
  finding.listed = !head.params.best_class || cuda_is_best(head.maps[VX_HEATMAP], flat * head.classes + first, count,
                                                           label - first, finding.logit);
  finding.segment = cloud * head.groups + task;
  finding.first = cloud * head.group_first[head.groups] + head.group_first[task];
  finding.number = label * head.cells + (uint32_t)(flat % head.cells);
  return finding;
}

// ---- make -----------------------------------------------------------------------------------------------------------

static __device__ void read_values(const struct cuda_map &map, uint64_t first, uint32_t count, float *values) {
  for (uint32_t i = 0; i < count; i++) values[i] = map.values ? cuda_map_value(map, first + i) : 0;
}

static __device__ struct vx_center_values values_at(const struct cuda_map *maps, uint64_t at) {
  struct vx_center_values values;
  read_values(maps[VX_CENTER], at * 2, 2, values.offset);
  read_values(maps[VX_HEIGHT], at, 1, &values.height);
  read_values(maps[VX_DIM], at * 3, 3, values.dim);
  read_values(maps[VX_ROT], at * 2, 2, values.rot);
  read_values(maps[VX_VEL], at * 2, 2, values.vel);
  read_values(maps[VX_IOU], at, 1, &values.iou);
  return values;
}

// If the job was stopped, the key is undefined.
struct candidate {
  uint64_t key;
  uint32_t label, cell;
  float box[VX_MOVING_BOX_VALUES];
};

// Decodes the candidate's box and, if head.rectifying, computes its new key. Returns its fate so far: kept, invalid,
// outside or below the threshold of rectified scores.
static __device__ enum vx_fate make_box(const struct center_head &head, uint32_t segment, struct candidate *own) {
  uint32_t cloud = segment / head.groups, task = segment % head.groups, number = (uint32_t)own->key;
  own->label = min(number / head.cells, head.classes - 1);
  own->cell = number % head.cells;
  struct vx_center_values values =
      values_at(head.maps, ((uint64_t)cloud * head.cells + own->cell) * head.groups + task);
  vx_center_box(&head.params, own->cell / head.width, own->cell % head.width, &values, own->box);
  if (!vx_is_valid_center(&values, own->box)) return VX_FATE_INVALID;
  if (vx_is_outside(&head.params, own->box)) return VX_FATE_OUTSIDE;
  if (!head.rectifying) return VX_FATE_KEPT;
  float logit = vx_score_of_key((uint32_t)(own->key >> 32));
  float score = vx_rectified_score(&head.params, (int32_t)own->label, logit, values.iou);
  own->key = (uint64_t)vx_rank_key(score) << 32 | number;
  return score > head.params.rectified_threshold ? VX_FATE_KEPT : VX_FATE_BELOW_THRESHOLD;
}

// Called by a whole block. Decodes the boxes of a segment's ranked candidates, and moves the remaining keys to the
// front; all threads read their keys before any key moves. New keys go to the array of keys to rank. Returns how many
// remain.
static __device__ uint32_t make_boxes(const struct cuda_view &v, const struct center_head &head, uint32_t segment,
                                      uint32_t count) {
  uint64_t *ranked = head.ranked + cuda_ranked_begin(head.segments, head.most_ranked, segment);
  uint64_t *keys = head.keys + cuda_segment_begin(head.segments, segment);
  uint64_t first = cuda_ranked_begin(head.segments, head.most_made, segment);
  uint32_t made = 0, invalid = 0, outside = 0;
  for (uint32_t begin = 0; begin < count; begin += MAKE_BLOCK) {
    uint32_t rank = begin + threadIdx.x, more;
    struct candidate own;
    own.key = rank < count ? ranked[rank] : 0;
    enum vx_fate fate = rank < count ? make_box(head, segment, &own) : VX_FATE_COUNT;
    uint32_t place = made + cuda_block_before(fate == VX_FATE_KEPT, &more);
    invalid += fate == VX_FATE_INVALID;
    outside += fate == VX_FATE_OUTSIDE;
    if (fate == VX_FATE_KEPT && head.rectifying) {
      keys[place] = own.key;
    } else if (fate == VX_FATE_KEPT && place < head.most_made) {
      ranked[place] = own.key;
      head.labels[first + place] = (int32_t)own.label;
      head.indices[first + place] = (int32_t)(own.label * head.cells + own.cell);
      cuda_store_box(head, first + place, own.box);
    }
    made += more;
  }
  invalid = cuda_warp_add(invalid);
  outside = cuda_warp_add(outside);
  if (threadIdx.x % 32 == 0) {
    atomicAdd(&v.counters->invalid, invalid);
    atomicAdd(&v.counters->outside, outside);
  }
  return made;
}

static __global__ void __launch_bounds__(MAKE_BLOCK)
    make_centers_kernel(const __grid_constant__ struct cuda_view v, const __grid_constant__ struct center_head head) {
  cuda_wait();
  uint32_t segment = blockIdx.x, listed = head.num_listed[segment], objects = min(listed, head.most_ranked);
  uint32_t made = make_boxes(v, head, segment, objects);
  __syncthreads();
  if (threadIdx.x == 0) {
    head.num_made[segment] = made;
    atomicAdd(&v.counters->over_max_objects, listed - objects);
    atomicMax((unsigned long long *)&v.counters->moments[CUDA_DECODED], cuda_now());
  }
}

static enum vx_status make_pass(const struct cuda_run *run, const struct center_head *head, struct error *error) {
  return cuda_launch("make_centers_kernel", make_centers_kernel, head->segments.count, MAKE_BLOCK, 0, run, error, *run,
                     *head);
}

static enum vx_status make(const struct cuda_run *run, struct center_head *head, struct cuda_ranking *ranking,
                           struct error *error) {
  head->num_listed = head->num_found;
  head->rectifying = head->rectified;
  CUDA_TRY(make_pass(run, head, error));
  if (!head->rectified) return VX_OK;
  head->num_listed = ranking->counts = head->num_made;
  head->rectifying = false;
  CUDA_TRY(cuda_rank(run, ranking, error));
  return make_pass(run, head, error);
}

// ---- the job --------------------------------------------------------------------------------------------------------

static void lay_out_tasks(struct center_head *head) {
  struct vx_head_tasks tasks = vx_head_tasks_of(&head->params.tasks, head->classes);
  head->tasks = vx_head_groups_of(&tasks, VX_GROUP_TASK);
  for (uint32_t task = 0; task <= head->groups; task++)
    head->group_first[task] = (head->params.best_class ? task : (uint32_t)head->tasks.first[task]) * head->cells;
}

enum vx_status cuda_decode_center(struct cuda_run *run, struct error *error) {
  if (run->clouds.num_points == 0) return cuda_write_none(run, error);
  struct vx_sizes sizes = vx_sizes_of(run->job);
  struct center_head head = {};
  struct cuda_found_parts parts = {};
  head.params = run->job->params.center;
  head.classes = (uint32_t)sizes.logits;
  head.cells = (uint32_t)(sizes.height * sizes.width);
  head.width = (uint32_t)sizes.width;
  head.groups = (uint32_t)sizes.tasks;
  head.values = (uint32_t)sizes.decoded;
  head.most_ranked = (uint32_t)head.params.max_objects;
  head.some_left_out = true;
  head.rectified = run->job->inputs[VX_IOU].rank != 0;
  head.num_radii = head.params.nms.circle ? (uint32_t)head.params.num_radii : 0;
  memcpy(head.radii, head.params.radii, sizeof head.radii);
  lay_out_tasks(&head);
  struct vx_nms nms = head.params.nms;
  nms.pre_max = min(nms.pre_max, head.params.max_objects);  // a task has no more boxes
  CUDA_TRY(cuda_prepare_found(run, &nms, &head, &parts, error));
  CUDA_TRY(cuda_find(run, head, vx_least_logit(head.params.score_threshold, true), error));
  CUDA_TRY(cuda_rank(run, &parts.ranking, error));
  CUDA_TRY(make(run, &head, &parts.ranking, error));
  return cuda_finish_found(run, &head, &parts.suppression, error);
}
