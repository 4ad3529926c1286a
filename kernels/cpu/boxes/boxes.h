// Boxes on the CPU: suppression, the decoding of both kinds of head, and what these operations share.
//
// Runs on the thread that has the lane. Everything belongs to one job, and so to one thread.
#ifndef VOXELD_CPU_BOXES_H
#define VOXELD_CPU_BOXES_H

#include "kernels/cpu/base/base.h"
#include "kernels/head.h"
#include "kernels/overlap.h"

VX_WARN_UNUSED enum vx_status cpu_nms(struct vx_lane *lane, struct vx_job *job, struct error *error);
VX_WARN_UNUSED enum vx_status cpu_decode(struct vx_lane *lane, struct vx_job *job, struct error *error);
VX_WARN_UNUSED enum vx_status cpu_decode_center(struct vx_lane *lane, struct vx_job *job, struct error *error);

// ---- suppression, one cloud at a time -------------------------------------------------------------------------------

struct cpu_suppressor {
  struct vx_stop *stop;
  const struct vx_nms *params;
  const float *boxes;     // [boxes, 7]; the number of a box is its row
  const int32_t *labels;  // [boxes]; NULL if labels are ignored
  // The caller fills `ranked` with the key and number of each valid box of the cloud, by rising number. Both arrays are
  // in scratch memory.
  struct cpu_keyed *ranked, *spare;
  // One entry per candidate, in the order of ranks. `x`, `y` and `reach` are centres and radii, packed for a quick test
  // of all candidates. `struck` is 1 if the candidate is suppressed.
  struct vx_rectangle *rectangles;
  double *x, *y, *reach;
  unsigned char *struck;
  int32_t *near;  // numbers of the candidates that the current box may suppress
};

// Takes the arrays for clouds of up to `most` boxes.
void cpu_suppressor_lay_out(struct cpu_suppressor *suppressor, int32_t most, struct cpu_arena *arena);

// Ranks the `valid` boxes of a cloud and writes the numbers of the kept boxes, the best first. Returns how many are
// kept, and adds the fates of the valid boxes to the counts. For `stop`, pairs count as rows, since the number of pairs
// grows with the square of the number of boxes.
int32_t cpu_suppress(struct cpu_suppressor *suppressor, int32_t valid, int32_t *kept, struct vx_counts *counts);

// ---- what both decoders share ---------------------------------------------------------------------------------------
//
// The values of a map, the candidates in it, the suppression of their boxes, and the tensors of the kept boxes.

static inline float cpu_map_value(const struct vx_input *map, int64_t index) {
  return vx_load(map->dtype, map->data, (uint64_t)index);
}

// `count` values of a map from `first` on, as float32: in place, or widened into `widened`.
const float *cpu_map_values(const struct vx_input *map, int64_t first, int32_t count, float *widened);

bool cpu_any_reaches(const float *logits, int32_t count, float least);

struct cpu_candidate {
  int32_t index;  // flat, in its cloud
  int32_t label;
  float logit;  // or the rectified score, if the box has one
};

// The candidates of a cloud. Each class belongs to a bucket; the listed candidates lie bucket by bucket.
struct cpu_listing {
  struct vx_stop *stop;
  unsigned char bucket_of[VX_MAX_CLASSES];  // by class
  int32_t buckets;
  int32_t count;
  int32_t ends[VX_MAX_CLASSES + 1];         // bucket `b` has the candidates ends[b] to ends[b + 1] - 1
  struct cpu_candidate *unsorted, *listed;  // unsorted: in the order of addition; listed: bucket by bucket
  struct cpu_keyed *keys, *spare;
};

// Takes the arrays for up to `most` candidates.
void cpu_listing_lay_out(struct cpu_listing *listing, uint64_t most, struct cpu_arena *arena);
void cpu_listing_clear(struct cpu_listing *listing);
static inline void cpu_listing_add(struct cpu_listing *listing, struct cpu_candidate candidate) {
  listing->unsorted[listing->count++] = candidate;
}
// Fills `listed` and `ends`.
void cpu_listing_sort(struct cpu_listing *listing);
// Ranks the listed candidates begin .. end - 1 by falling logit, then by their order. Returns their numbers in
// `listed`.
const struct cpu_keyed *cpu_listing_rank(struct cpu_listing *listing, int32_t begin, int32_t end);
// Sorts the first `count` entries of `ranked`, which cpu_listing_rank returned, by their numbers again.
const struct cpu_keyed *cpu_listing_unrank(struct cpu_listing *listing, const struct cpu_keyed *ranked, int32_t count);

struct cpu_found {
  struct vx_job *job;
  int64_t values;  // of a box in the answer, with or without a velocity
  bool rectified;  // boxes are ranked by rectified scores
  struct cpu_suppressor suppressor;
  // The boxes of the current group of the current cloud, in the order in which they were added.
  int32_t count;
  struct cpu_candidate *candidates;
  float (*boxes)[VX_BOX_VALUES], (*velocities)[2];
  int32_t *labels, *kept;
  // The kept boxes of all clouds.
  int32_t num_chosen;
  struct cpu_candidate *chosen;
  float *chosen_boxes;  // [num_chosen, values]
};

// Takes the arrays for up to `most` boxes at a time and up to `chosen` kept boxes in all. Set `job`, `values` and the
// suppressor's `stop` and `params` first.
void cpu_found_lay_out(struct cpu_found *found, uint64_t most, uint64_t chosen, struct cpu_arena *arena);

// Adds a valid box of `values` values. Of boxes with equal logits, the one added first ranks first.
void cpu_found_add(struct cpu_found *found, const struct cpu_candidate *candidate, const float *box);

// Suppresses boxes among those added since the last call, and adds the others to the cloud's kept boxes. `began` is the
// time at which their decoding began. VX_STOPPED with an error if the job is stopped.
VX_WARN_UNUSED enum vx_status cpu_found_suppress(struct cpu_found *found, int32_t cloud, int64_t began,
                                                 struct error *error);

// Writes the requested tensors of the kept boxes.
VX_WARN_UNUSED enum vx_status cpu_found_write(const struct cpu_found *found, struct error *error);

#endif
