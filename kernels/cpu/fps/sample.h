// Farthest point sampling of one cloud, exact to the bit, on one thread.
//
// The rule: the first sample is given. Each next sample is the finite point with the largest distance to its nearest
// sample so far; of several, the one with the lowest index. Distances are squared, float32: (dx*dx + dy*dy) + dz*dz. A
// point whose x, y or z is not finite takes no part. The result equals that of the plain loop over all points, for
// every input. It takes less work, as whole boxes of points are skipped (see sample_steps.h).
//
// A sampler belongs to one lane, so to one thread at a time; its arrays are the lane's scratch.
#ifndef VOXELD_CPU_SAMPLE_H
#define VOXELD_CPU_SAMPLE_H

#include "kernels/cpu/fps/sample_tree.h"

// False if the task was stopped; `indices` and `distances` are then incomplete.
VX_WARN_UNUSED bool cpu_sample(struct cpu_sampler *sampler, const struct cpu_sample_task *task);
// The same with the vectors that every processor of the architecture has.
VX_WARN_UNUSED bool cpu_sample_any(struct cpu_sampler *sampler, const struct cpu_sample_task *task);

#endif
