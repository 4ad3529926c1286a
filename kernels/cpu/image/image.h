// Range images on the CPU. kernels/range_image.h defines the operation.
#ifndef VOXELD_CPU_IMAGE_H
#define VOXELD_CPU_IMAGE_H

#include "kernels/kernels.h"

VX_WARN_UNUSED enum vx_status cpu_range_image(struct vx_lane *lane, struct vx_job *job, struct error *error);

enum { CPU_PROJECTED = 256 };  // points that are projected at once

// Points, and what is found of each: its column and its row by elevation (kernels/range_image.h).
struct cpu_projected {
  float x[CPU_PROJECTED], y[CPU_PROJECTED], z[CPU_PROJECTED];
  double column[CPU_PROJECTED], row[CPU_PROJECTED];
  float distance[CPU_PROJECTED];
};

// Fills the columns, the rows if `rows` says so, and the distances. All points must be finite.
void cpu_project(const struct vx_view *view, bool rows, struct cpu_projected *points);
// The same, with only the vectors that every processor of the architecture has.
void cpu_project_any(const struct vx_view *view, bool rows, struct cpu_projected *points);

#endif
