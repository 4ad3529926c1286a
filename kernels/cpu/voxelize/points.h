// From points to voxels.
#ifndef VOXELD_CPU_POINTS_H
#define VOXELD_CPU_POINTS_H

#include "kernels/cpu/voxelize/run.h"

// Where points are looked up, and what comes of it.
struct cpu_lookup {
  struct cpu_cell_index index;     // started by the caller
  int32_t *inside;                 // [end - begin]: indices of the points in range
  int32_t *voxel_of;               // [end - begin]: the number of the voxel of each of them
  int32_t num_inside, not_finite;  // points
};

// Finds the voxel of each of the points begin .. end.
void cpu_look_up_points(const struct cpu_run *run, struct vx_stop *stop, int32_t begin, int32_t end,
                        struct cpu_lookup *lookup);

// Finds the voxel of each point of the cloud: fills run.cells, run.inside and run.voxel_of, counts not_finite and
// out_of_range.
void cpu_index_points(struct cpu_run *run, const struct cpu_cloud *cloud);

#endif
