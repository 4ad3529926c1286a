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

#include "kernels/cpu/fps/sample_tree.h"

// False if `stopped` said so; what `indices` and `distances` hold is then of no use.
VX_WARN_UNUSED bool cpu_sample(struct cpu_sampler *sampler, const struct cpu_sample_task *task);
// The same with the vectors that every processor of the architecture has.
VX_WARN_UNUSED bool cpu_sample_any(struct cpu_sampler *sampler, const struct cpu_sample_task *task);

#endif
