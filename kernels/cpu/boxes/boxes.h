// Boxes on the CPU: suppression alone, decoding of both kinds of head, and what these operations share. Run on the
// thread that has the lane; all belongs to one job, and so to one thread.
#ifndef VOXELD_CPU_BOXES_H
#define VOXELD_CPU_BOXES_H

#include "kernels/cpu/base/base.h"
#include "kernels/overlap.h"

VX_WARN_UNUSED enum vx_status cpu_nms(struct vx_lane *lane, struct vx_job *job, struct error *error);
VX_WARN_UNUSED enum vx_status cpu_decode(struct vx_lane *lane, struct vx_job *job, struct error *error);
VX_WARN_UNUSED enum vx_status cpu_decode_center(struct vx_lane *lane, struct vx_job *job, struct error *error);

// ---- suppression, one cloud at a time: ranks, rectangles, and who is struck out -------------------------------------

struct cpu_suppressor {
  struct vx_stop *stop;
  const struct vx_nms *params;
  const float *boxes;     // [.., 7], by number
  const int32_t *labels;  // by number; NULL if they make no difference
  // Filled by the caller: the key and number of each valid box of the cloud, by rising number; then in scratch memory.
  struct cpu_keyed *ranked, *spare;
  // Of the candidates, in the order of ranks: their rectangles; their centres, and how far from these they reach,
  // packed for a quick look at all; and which of them are struck out.
  struct vx_rectangle *rectangles;
  double *x, *y, *reach;
  unsigned char *struck;
  int32_t *near;  // numbers of those that may be suppressed by the box in hand
};

// Takes the arrays for clouds of up to `most` boxes.
void cpu_suppressor_lay_out(struct cpu_suppressor *suppressor, int32_t most, struct cpu_arena *arena);

// Ranks the `valid` boxes of a cloud and writes the numbers of those that are kept, the best first. Returns how many,
// and adds the fates of all to the counts. Pairs are the square of the boxes, and count as rows of `stop`.
int32_t cpu_suppress(struct cpu_suppressor *suppressor, int32_t valid, int32_t *kept, struct vx_counts *counts);

// ---- what both decoders have in common ------------------------------------------------------------------------------
//
// Values of a map, the candidates that they find in it, suppression among their boxes, and the tensors made of those
// that are kept.

static inline float cpu_map_value(const struct vx_input *map, int64_t index) {
  return vx_load(map->dtype, map->data, (uint64_t)index);
}

// `count` values of a map from `first` on, as float32: where they are, or in `widened`.
const float *cpu_map_values(const struct vx_input *map, int64_t first, int32_t count, float *widened);

bool cpu_any_reaches(const float *logits, int32_t count, float least);

struct cpu_candidate {
  int32_t index;  // flat, of its cloud
  int32_t label;
  float logit;
};

struct cpu_found {
  struct vx_job *job;
  int64_t values;  // of a box in the answer: with a velocity, or without
  struct cpu_suppressor suppressor;
  // Of one cloud at a time, or of one task of it: the boxes that may be kept, in the order in which they were added.
  int32_t count;
  struct cpu_candidate *candidates;
  float (*boxes)[VX_BOX_VALUES], (*velocities)[2];
  int32_t *labels, *kept;
  // Of all clouds: what is kept.
  int32_t num_chosen;
  struct cpu_candidate *chosen;
  float *chosen_boxes;  // [num_chosen, values]
};

// Takes the arrays for up to `most` boxes at a time, of which up to `chosen` are kept in all. `job`, `values` and the
// suppressor's job and parameters are set before.
void cpu_found_lay_out(struct cpu_found *found, uint64_t most, uint64_t chosen, struct cpu_arena *arena);

// Adds a valid box of `values` values. Of equal logits the first to be added ranks first. The candidate may lie in
// `candidates`, from number `count` on.
void cpu_found_add(struct cpu_found *found, const struct cpu_candidate *candidate, const float *box);

// Suppresses among the boxes that were added since the last call, and keeps the others as the cloud's. `began` is when
// their decoding did. VX_STOPPED with an error if the caller stops the job.
VX_WARN_UNUSED enum vx_status cpu_found_suppress(struct cpu_found *found, int32_t cloud, int64_t began,
                                                 struct error *error);

// Writes the tensors of the kept boxes, if any are wanted.
VX_WARN_UNUSED enum vx_status cpu_found_write(const struct cpu_found *found, struct error *error);

#endif
