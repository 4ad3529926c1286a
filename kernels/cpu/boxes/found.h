// What both decoders on the CPU have in common: values of a map, the candidates that they find in it, suppression among
// their boxes, and the tensors made of those that are kept. All belongs to one job, and so to one thread.
#ifndef VOXELD_CPU_FOUND_H
#define VOXELD_CPU_FOUND_H

#include "kernels/cpu/boxes/suppress.h"

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
