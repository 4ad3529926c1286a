// Scatter on the CPU, and how rows become a dense map. Runs on the thread that has the lane.
#ifndef VOXELD_CPU_SCATTER_H
#define VOXELD_CPU_SCATTER_H

#include "kernels/kernels.h"

VX_WARN_UNUSED enum vx_status cpu_scatter(struct vx_lane *lane, struct vx_job *job, struct error *error);

struct cpu_placed {
  int64_t cell;  // in its cloud's grid: (z * ny + y) * nx + x
  int32_t row;
};

struct cpu_planes {
  const void *features;  // [rows, channels]
  enum vx_dtype dtype;   // of the features and of the map
  int64_t channels;
  int64_t cells;  // of the grid of one cloud
};

// Writes the map [channels, cells] of one cloud: each row's values, bit for bit, at its own cell; zeros elsewhere.
void cpu_write_planes(const struct cpu_planes *planes, struct vx_stop *stop, const struct cpu_placed *placed,
                      int64_t count, void *map);

#endif
