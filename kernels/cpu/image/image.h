// Range images on the CPU. kernels/range_image.h defines the operation.
#ifndef VOXELD_CPU_IMAGE_H
#define VOXELD_CPU_IMAGE_H

#include "kernels/kernels.h"

VX_WARN_UNUSED enum vx_status cpu_range_image(struct vx_lane *lane, struct vx_job *job, struct error *error);

enum { CPU_PROJECTED = 256 };  // points that are projected at once

struct cpu_projected {
  float x[CPU_PROJECTED], y[CPU_PROJECTED], z[CPU_PROJECTED];
  double column[CPU_PROJECTED], row[CPU_PROJECTED];  // a row outside the image is -1
  int32_t pixel[CPU_PROJECTED];                      // in the image, or VX_NO_PIXEL or VX_NOT_FINITE_PIXEL
  float distance[CPU_PROJECTED];                     // undefined for points that are not finite
};

// Fills `column`, `pixel` and `distance`, and also `row` for rows by elevation. For rows by ring, `row` is an input.
typedef void cpu_project(const struct vx_range_image *params, struct cpu_projected *points);

struct cpu_project_way {
  const char *name;
  bool (*runs)(void);  // whether this processor can run it
  cpu_project *project;
};

// The fastest first; plain C is last. All compute the same bits.
extern const struct cpu_project_way cpu_project_ways[];
extern const int cpu_num_project_ways;

// The fastest way on this processor.
cpu_project *cpu_project_here(void);

#endif
