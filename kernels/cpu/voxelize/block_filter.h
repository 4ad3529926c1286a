// The block filter.
#ifndef VOXELD_CPU_BLOCK_FILTER_H
#define VOXELD_CPU_BLOCK_FILTER_H

#include "kernels/cpu/voxelize/run.h"

// Removes the rows that the block filter drops.
void cpu_filter_blocks(struct cpu_run *run, const struct cpu_cloud *cloud);

#endif
