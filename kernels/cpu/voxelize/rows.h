// From the voxels of a cloud to rows of the output.
#ifndef VOXELD_CPU_ROWS_H
#define VOXELD_CPU_ROWS_H

#include "kernels/cpu/voxelize/run.h"

// Appends a row for each voxel that max_voxels lets in, with room in the list for its points. Counts what the caps
// drop.
void cpu_make_rows(struct cpu_run *run, const struct cpu_cloud *cloud);

// Lists the points of the rows that cpu_make_rows has made.
void cpu_list_points(struct cpu_run *run, const struct cpu_cloud *cloud);

// Puts the cloud's rows in ascending order of their cells.
void cpu_order_rows(struct cpu_run *run, const struct cpu_cloud *cloud);

// Fills the cloud's point_ids.
void cpu_name_points(struct cpu_run *run, const struct cpu_cloud *cloud);

#endif
