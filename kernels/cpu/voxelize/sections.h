// The fates of a lone cloud's points, section by section.
#ifndef VOXELD_CPU_VOXELIZE_SECTIONS_H
#define VOXELD_CPU_VOXELIZE_SECTIONS_H

#include "kernels/cpu/voxelize/run.h"

// Fills the counts of the job's sections. Called when the cloud's rows are final but for their order. Uses run.row_of
// if there is a block filter.
void cpu_count_sections(struct cpu_run *run, const struct cpu_cloud *cloud);

#endif
