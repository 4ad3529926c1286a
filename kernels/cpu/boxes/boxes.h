// Boxes on the CPU: suppression, decoding of both kinds of head, and what they share. Runs on the thread that has the
// lane; everything belongs to one job.
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
  const float *boxes;     // [boxes,7]; a box's number is its row
  const int32_t *labels;  // [boxes]; NULL = labels are ignored
  // The caller fills `ranked` with the valid boxes of the cloud, by rising number. Both arrays are scratch.
  struct cpu_keyed *ranked, *spare;
  // By rank. x, y, reach: centres and radii, packed for a quick test of all candidates. struck: 1 = suppressed.
  struct vx_rectangle *rectangles;
  double *x, *y, *reach;
  unsigned char *struck;
  int32_t *near;  // ranks of candidates that the current box may suppress
};

// Takes the arrays for clouds of up to `most` boxes.
void cpu_suppressor_lay_out(struct cpu_suppressor *suppressor, int32_t most, struct cpu_arena *arena);

// Ranks the `valid` boxes of a cloud and writes the numbers of the kept boxes, the best first. Returns how many are
// kept; adds the fates of the valid boxes to `counts`. For `stop`, a pair of boxes counts as a row.
int32_t cpu_suppress(struct cpu_suppressor *suppressor, int32_t valid, int32_t *kept, struct vx_counts *counts);

// ---- shared by both decoders ----------------------------------------------------------------------------------------

static inline float cpu_map_value(const struct vx_input *map, int64_t index) {
  return vx_load(map->dtype, map->data, (uint64_t)index);
}

// `count` values of a map from `first` on, as float32: in place, or in `widened`.
const float *cpu_map_values(const struct vx_input *map, int64_t first, int32_t count, float *widened);

bool cpu_any_reaches(const float *logits, int32_t count, float least);

struct cpu_candidate {
  int32_t index;  // in its cloud
  int32_t label;
  float logit;  // or the rectified score
};

// The candidates of a cloud, sorted into buckets of classes.
struct cpu_listing {
  struct vx_stop *stop;
  unsigned char bucket_of[VX_MAX_CLASSES];  // [class]
  int32_t buckets;
  int32_t count;
  int32_t ends[VX_MAX_CLASSES + 1];         // bucket b: listed[ends[b]] to listed[ends[b + 1] - 1]
  struct cpu_candidate *unsorted, *listed;  // in the order of addition; bucket by bucket
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
// Ranks listed[begin..end - 1] by falling logit, then by their order. `number` is the index in `listed`.
const struct cpu_keyed *cpu_listing_rank(struct cpu_listing *listing, int32_t begin, int32_t end);
// Sorts the first `count` of the ranked entries by number again.
const struct cpu_keyed *cpu_listing_unrank(struct cpu_listing *listing, const struct cpu_keyed *ranked, int32_t count);

struct cpu_found {
  struct vx_job *job;
  int64_t values;  // of a box in the answer, with or without velocity
  bool rectified;  // ranked by rectified scores
  struct cpu_suppressor suppressor;
  // The boxes of the current group and cloud, in the order of addition.
  int32_t count;
  struct cpu_candidate *candidates;
  float (*boxes)[VX_BOX_VALUES], (*velocities)[2];
  int32_t *labels, *kept;
  // Kept boxes of all clouds.
  int32_t num_chosen;
  struct cpu_candidate *chosen;
  float *chosen_boxes;  // [num_chosen,values]
};

// Takes the arrays for up to `most` boxes at a time and `chosen` kept boxes in all. Set `job`, `values` and the
// suppressor's `stop` and `params` before.
void cpu_found_lay_out(struct cpu_found *found, uint64_t most, uint64_t chosen, struct cpu_arena *arena);

// Adds a valid box of `values` values. Of equal logits, the box that is added first ranks first.
void cpu_found_add(struct cpu_found *found, const struct cpu_candidate *candidate, const float *box);

// Suppresses boxes among those added since the last call, and adds the others to the cloud's kept boxes. `began`: when
// their decoding began. VX_STOPPED with an error if the job is stopped.
VX_WARN_UNUSED enum vx_status cpu_found_suppress(struct cpu_found *found, int32_t cloud, int64_t began,
                                                 struct error *error);

// Writes the requested tensors.
VX_WARN_UNUSED enum vx_status cpu_found_write(const struct cpu_found *found, struct error *error);

#endif
