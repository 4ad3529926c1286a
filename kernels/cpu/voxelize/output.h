// The tensors of a voxelize job, piece by piece.
#ifndef VOXELD_CPU_VOXELIZE_OUTPUT_H
#define VOXELD_CPU_VOXELIZE_OUTPUT_H

#include "kernels/cpu/voxelize/run.h"

// Both fail only if help does; see spread.h. They add up the times of the stages.
//
// Writes the mean of each row: [num_rows, columns] float32.
VX_WARN_UNUSED enum vx_status cpu_write_means(const struct cpu_run *run, float *means, struct error *error);

// Writes the tensors of `layout` into `output`, except those of sampling.
VX_WARN_UNUSED enum vx_status cpu_write_tensors(struct cpu_run *run, const struct vx_layout *layout, void *output,
                                                struct error *error);

#endif
