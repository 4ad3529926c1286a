// From points to voxels.
#ifndef VOXELD_CPU_POINTS_H
#define VOXELD_CPU_POINTS_H

#include "kernels/cpu/voxelize/run.h"

// Finds the voxel of each point of the cloud: fills run.cells, run.inside and run.voxel_of, counts not_finite and
// out_of_range.
void cpu_index_points(struct cpu_run *run, const struct cpu_cloud *cloud);

#endif
