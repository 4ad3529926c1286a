// From rows to tensors.
#ifndef VOXELD_CPU_WRITERS_H
#define VOXELD_CPU_WRITERS_H

#include "kernels/cpu/voxelize/run.h"

// Writes the mean of each row: [num_rows, columns] float32.
void cpu_write_means(const struct cpu_run *run, float *means);

// Writes the tensors of `layout` into `output`, except those of sampling, and adds up the times of their stages.
void cpu_write_tensors(struct cpu_run *run, const struct vx_layout *layout, void *output);

#endif
