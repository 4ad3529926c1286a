// A lone cloud, looked up by several hands.
//
// Its points are cut into segments. What comes out are the voxels of cpu_index_points, with the same numbers: by the
// first point of the whole cloud that falls into them.
#ifndef VOXELD_CPU_SEGMENTS_H
#define VOXELD_CPU_SEGMENTS_H

#include "kernels/cpu/base/arena.h"
#include "kernels/cpu/voxelize/run.h"

// Into how many segments the run's cloud is cut: 0 if it is small, one of several, or nobody is there to help.
int32_t cpu_segments_wanted(const struct cpu_run *run);

// Takes the arrays for run->cut.count segments.
void cpu_segments_lay_out(struct cpu_run *run, struct cpu_arena *arena);

// As cpu_index_points and cpu_make_rows, for the run's own hand and a cloud that is cut. run.inside and run.voxel_of
// are only filled if something but the list reads them.
VX_WARN_UNUSED enum vx_status cpu_index_segments(struct cpu_run *run, const struct cpu_cloud *cloud,
                                                 struct error *error);

// As cpu_list_points, likewise.
VX_WARN_UNUSED enum vx_status cpu_list_segments(struct cpu_run *run, const struct cpu_cloud *cloud,
                                                struct error *error);

#endif
