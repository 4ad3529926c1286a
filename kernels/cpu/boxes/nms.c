// Non-maximum suppression on the CPU: boxes.h says what it computes. Cloud by cloud, the valid boxes are ranked, and
// each one that is kept strikes out those after it that it overlaps too much.
#include "kernels/cpu/boxes/nms.h"

#include <string.h>

#include "kernels/cpu/base/lane.h"
#include "kernels/cpu/base/sort.h"
#include "kernels/ops.h"
#include "kernels/overlap.h"
#include "kernels/rank.h"

struct nms {
  struct vx_job *job;
  const struct vx_nms *params;
  const float *boxes, *scores;  // [N, 7], [N]
  const int32_t *labels;        // [N]; NULL if they make no difference
  // Of one cloud at a time.
  struct cpu_keyed *ranked, *spare;  // [boxes of a cloud]
  struct vx_rectangle *rectangles;   // [candidates of a cloud], in the order of ranks
  unsigned char *struck;             // [candidates of a cloud]
  int32_t *kept;                     // [N]: of all clouds
  int32_t num_kept;
};

static int32_t most_boxes(const struct vx_job *job) {
  int32_t most = 0;
  for (int32_t cloud = 0; cloud < job->num_clouds; cloud++) {
    most = job->point_counts[cloud] > most ? job->point_counts[cloud] : most;
  }
  return most;
}

static int32_t at_most(int32_t count, int32_t limit) { return count < limit ? count : limit; }

static void lay_out(struct nms *nms, struct cpu_arena *arena) {
  int32_t most = most_boxes(nms->job), candidates = at_most(most, nms->params->pre_max);
  nms->ranked = cpu_arena_take(arena, (uint64_t)most, sizeof *nms->ranked);
  nms->spare = cpu_arena_take(arena, (uint64_t)most, sizeof *nms->spare);
  nms->rectangles = cpu_arena_take(arena, (uint64_t)candidates, sizeof *nms->rectangles);
  nms->struck = cpu_arena_take(arena, (uint64_t)candidates, sizeof *nms->struck);
  nms->kept = cpu_arena_take(arena, (uint64_t)nms->job->inputs[VX_BOXES].dims[0], sizeof *nms->kept);
}

// Returns how many of the boxes begin .. end - 1 are valid; these are in nms->ranked then, the best first.
static int32_t rank(struct nms *nms, int32_t begin, int32_t end) {
  int32_t valid = 0;
  for (int32_t i = begin; i < end; i++) {
    if (vx_is_valid_box(nms->boxes + (int64_t)i * VX_BOX_VALUES, nms->scores[i])) {
      nms->ranked[valid++] = (struct cpu_keyed){vx_rank_key(nms->scores[i]), i};
    }
  }
  struct cpu_keyed *sorted = cpu_sort(nms->ranked, nms->spare, valid, 32);
  if (sorted == nms->spare) {
    nms->spare = nms->ranked;
    nms->ranked = sorted;
  }
  return valid;
}

// Strikes out those of the candidates behind number `best` that it suppresses.
static void strike(struct nms *nms, int32_t best, int32_t candidates) {
  const struct vx_rectangle *kept = &nms->rectangles[best];
  const int32_t *labels = nms->labels;
  for (int32_t i = best + 1; i < candidates; i++) {
    bool other = labels != NULL && labels[nms->ranked[i].number] != labels[nms->ranked[best].number];
    if (!nms->struck[i] && !other && vx_suppresses(kept, &nms->rectangles[i], nms->params->iou_threshold)) {
      nms->struck[i] = 1;
    }
  }
}

// Appends the boxes of a cloud that are kept. Returns how many of the candidates before the last of them are struck.
static int32_t keep(struct nms *nms, int32_t candidates, int32_t *num_kept) {
  int32_t kept = 0, struck = 0, i = 0;
  for (; i < candidates && kept < nms->params->post_max; i++) {
    struck += nms->struck[i];
    if (!nms->struck[i]) {
      nms->kept[nms->num_kept + kept++] = nms->ranked[i].number;
      strike(nms, i, candidates);
    }
  }
  nms->num_kept += kept;
  *num_kept = kept;
  return struck;
}

static void suppress(struct nms *nms) {
  struct vx_job *job = nms->job;
  struct vx_counts *counts = &job->counts;
  int32_t begin = 0;
  for (int32_t cloud = 0; cloud < job->num_clouds; cloud++) {
    int32_t end = begin + job->point_counts[cloud];
    int32_t valid = rank(nms, begin, end), candidates = at_most(valid, nms->params->pre_max);
    for (int32_t i = 0; i < candidates; i++) {
      nms->rectangles[i] = vx_rectangle_of(nms->boxes + (int64_t)nms->ranked[i].number * VX_BOX_VALUES);
      nms->struck[i] = 0;
    }
    int32_t struck = keep(nms, candidates, &job->row_counts[cloud]);
    counts->invalid += end - begin - valid;
    counts->over_pre_max += valid - candidates;
    counts->suppressed += struck;
    counts->over_post_max += candidates - struck - job->row_counts[cloud];
    counts->kept += job->row_counts[cloud];
    begin = end;
  }
}

static enum vx_status write_output(const struct nms *nms, struct vx_error *error) {
  struct vx_layout layout;
  void *output = NULL;
  enum vx_status status = vx_take_output(nms->job, &layout, &output, error);
  if (status == VX_OK && layout.bytes > 0) {
    memcpy((unsigned char *)output + layout.offset[VX_KEPT_INDICES], nms->kept, layout.shape[VX_KEPT_INDICES].bytes);
  }
  return status;
}

enum vx_status cpu_nms(struct vx_lane *lane, struct vx_job *job, struct vx_error *error) {
  const struct vx_nms *params = &job->params.nms;
  struct nms nms = {.job = job,
                    .params = params,
                    .boxes = job->inputs[VX_BOXES].data,
                    .scores = job->inputs[VX_SCORES].data,
                    .labels = params->class_agnostic ? NULL : job->inputs[VX_LABELS].data};
  struct cpu_arena measured = {0};
  int64_t began = cpu_now_ns();
  lay_out(&nms, &measured);
  enum vx_status status = cpu_arena_reserve(&lane->scratch, &measured, job, error);
  if (status != VX_OK) {
    return status;
  }
  lay_out(&nms, &lane->scratch);
  suppress(&nms);
  job->stage_ns[VX_STAGE_NMS] = cpu_now_ns() - began;
  return job->tensors == 0 ? VX_OK : write_output(&nms, error);
}
