// What both decoders on the CPU have in common: values of a map, the candidates that they find in it, and the tensors
// made of those that are kept. All belongs to one job, and so to one thread.
#ifndef VOXELD_CPU_FOUND_H
#define VOXELD_CPU_FOUND_H

#include "kernels/half.h"
#include "kernels/kernels.h"

struct cpu_candidate {
  int32_t index;  // flat, of its cloud
  int32_t label;
  float logit;
};

static inline float cpu_map_value(const struct vx_input *map, int64_t index) {
  return map->dtype == VX_FLOAT16 ? vx_half_to_float(((const uint16_t *)map->data)[index])
                                  : ((const float *)map->data)[index];
}

// `count` values of a map from `first` on, as float32: where they are, or in `widened`.
const float *cpu_map_values(const struct vx_input *map, int64_t first, int32_t count, float *widened);

bool cpu_any_reaches(const float *logits, int32_t count, float least);

// Writes the tensors of the kept boxes, [counts.kept], each with vx_sizes.decoded values.
VX_WARN_UNUSED enum vx_status cpu_write_found(const struct vx_job *job, const struct cpu_candidate *found,
                                              const float *boxes, struct vx_error *error);

#endif
