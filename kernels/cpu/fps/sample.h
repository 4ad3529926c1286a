// Farthest point sampling of one cloud, exact to the bit, on one thread.
//
// The rule: the first sample is given; each next one is the finite point whose distance to the samples so far is the
// largest, the one of the lowest index among equals. Distances are squared, float32, (dx*dx + dy*dy) + dz*dz. A point
// with an x, y or z that is not finite takes no part. What is found is what the plain loop over all points finds, for
// every input; the work is less because whole boxes of points are passed over (see sample_steps.h).
//
// A sampler belongs to one lane, so to one thread at a time; its arrays are the lane's scratch.
#ifndef VOXELD_CPU_SAMPLE_H
#define VOXELD_CPU_SAMPLE_H

#include "kernels/cpu/arena.h"

struct cpu_sample_task {
  const float *points;  // [num_points, columns]; x, y, z come first
  int32_t columns;
  int32_t num_points;
  int32_t num_samples;         // 1..number of finite points
  int32_t start;               // a finite point: the first sample
  bool (*stopped)(void *cls);  // asked about every millisecond: true = give up; may be NULL
  void *stopped_cls;
  int32_t *indices;  // out: [num_samples]
  float *distances;  // out: [num_samples]: squared, to the samples before, when it was taken; +inf for the first
};

// Arrays of one cloud's sampling.
struct cpu_sampler {
  struct cpu_sample_point *points[2];  // [num_points] each: the cloud and room to move it to
  unsigned char *codes;                // [num_points]
  struct cpu_sample_block *blocks;
  struct cpu_sample_leaf *leaves;
  struct cpu_sample_node *nodes;
  int32_t num_blocks, num_leaves, num_nodes;

  const struct cpu_sample_task *task;
  int64_t work;   // points looked at since task.stopped was asked
  int32_t steps;  // samples taken since then
};

// Takes the arrays for one cloud of up to num_points points from the arena.
void cpu_sampler_lay_out(struct cpu_sampler *sampler, struct cpu_arena *arena, int32_t num_points);

// False if `stopped` said so; what `indices` and `distances` hold is then of no use.
VX_WARN_UNUSED bool cpu_sample(struct cpu_sampler *sampler, const struct cpu_sample_task *task);

#endif
