// From the voxels of a cloud to rows of the output.
#ifndef VOXELD_CPU_ROWS_H
#define VOXELD_CPU_ROWS_H

#include "kernels/cpu/voxelize/run.h"

// Voxels of a cloud whose numbers follow each other.
struct cpu_stretch {
  int32_t begin, end;
  int32_t listed;  // where the points of the first are listed
};

// Makes a row for each voxel that max_voxels lets in, at the place of its number, with room in the list for its points.
// Counts the rows (voxels_kept), the points that they keep, and what the caps drop.
void cpu_make_rows_of(const struct cpu_run *run, struct vx_stop *stop, const struct cpu_cloud *cloud,
                      const struct cpu_stretch *stretch, struct vx_counts *counts);

// Adds the rows that were counted, which are those behind the run's.
void cpu_add_rows(struct cpu_run *run, const struct vx_counts *counts);

// Both, for all voxels of the cloud.
void cpu_make_rows(struct cpu_run *run, const struct cpu_cloud *cloud);

// Lists the points of the rows that cpu_make_rows has made.
void cpu_list_points(struct cpu_run *run, const struct cpu_cloud *cloud);

// Puts the cloud's rows in ascending order of their cells.
void cpu_order_rows(struct cpu_run *run, const struct cpu_cloud *cloud);

// Fills row_of: the row of each voxel that max_voxels lets in, -1 if the block filter has removed it.
void cpu_note_rows(struct cpu_run *run, const struct cpu_cloud *cloud);

// Fills the cloud's point_ids.
void cpu_name_points(struct cpu_run *run, const struct cpu_cloud *cloud);

#endif
