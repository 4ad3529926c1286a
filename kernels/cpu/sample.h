// Farthest point sampling of one cloud. Runs on the thread that has the lane; its arrays are the lane's scratch.
#ifndef VOXELD_CPU_SAMPLE_H
#define VOXELD_CPU_SAMPLE_H

#include "kernels/cpu/arena.h"

// Arrays of one cloud's sampling, in the lane's scratch.
struct cpu_sampler {
  float *distance;
};

struct cpu_sample_task {
  const float *points;  // [num_points, columns] float32; x, y, z come first
  int32_t columns;
  int32_t num_points;
  int32_t num_samples;         // 1..number of finite points
  int32_t start;               // a finite point
  bool (*stopped)(void *cls);  // may be NULL; asked now and then: true = give up
  void *stopped_cls;
  int32_t *indices;  // out: [num_samples]
  float *distances;  // out: [num_samples]: squared, to those before it, at which each was taken; +inf for the first
};

// Takes the arrays for one cloud of up to num_points points; see arena.h.
void cpu_sampler_lay_out(struct cpu_sampler *sampler, struct cpu_arena *arena, int32_t num_points);

// False if `stopped` said so.
VX_WARN_UNUSED bool cpu_sample(struct cpu_sampler *sampler, const struct cpu_sample_task *task);

#endif
