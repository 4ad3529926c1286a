// Farthest point sampling of a job's clouds, from points or from means of voxels, and the job that only samples.
//
// Runs on the thread that has the lane; helpers may run clouds. The arrays of a struct cpu_fps are scratch.
//
// The rule, exact to the bit: the first sample is given. The next sample is the finite point with the largest distance
// to its nearest sample so far; of several, the one with the lowest index. Distances are squared, float32: (dx*dx +
// dy*dy) + dz*dz. Points that are not finite take no part. The result equals that of the plain loop over all points;
// sample_steps.h skips whole boxes of points.
#ifndef VOXELD_CPU_FPS_H
#define VOXELD_CPU_FPS_H

#include "kernels/cpu/fps/sample_tree.h"
#include "kernels/kernels.h"

// Samples one cloud on this thread. False if stopped: `indices` and `distances` are then incomplete.
VX_WARN_UNUSED bool cpu_sample(struct cpu_sampler *sampler, const struct cpu_sample_task *task);
// The same, with vector instructions that every processor of the architecture has.
VX_WARN_UNUSED bool cpu_sample_any(struct cpu_sampler *sampler, const struct cpu_sample_task *task);

// A cloud's part of input and output.
struct cpu_fps_cloud {
  int64_t first_row, first_sample;
  int32_t start;  // row of the first sample, in the cloud
};

// Arrays for sampling one cloud.
struct cpu_fps_desk {
  int32_t *indices;  // [most samples of a cloud]
  float *distances;  // [most samples of a cloud]
  struct cpu_sampler sampler;
};

struct cpu_fps {
  struct vx_job *job;
  int32_t columns;
  const float *rows;             // [sum of counts,columns]: points or means, cloud by cloud
  const int32_t *counts;         // [num_clouds]
  int32_t most;                  // most rows of a cloud
  struct cpu_fps_cloud *clouds;  // [num_clouds]
  struct cpu_fps_desk desk;      // of the run's own lane
};

// Takes the arrays for clouds of up to `most` rows.
void cpu_fps_lay_out(struct cpu_fps *fps, struct cpu_arena *arena, struct vx_job *job, int32_t most);

// Finds the first sample of each cloud. VX_REFUSED if a cloud has too few finite rows. Call vx_begin_samples before.
VX_WARN_UNUSED enum vx_status cpu_fps_prepare(struct cpu_fps *fps, const float *rows, const int32_t *counts,
                                              struct error *error);

// Chooses the samples and writes their tensors, with the help of other lanes. VX_STOPPED if the job is stopped.
VX_WARN_UNUSED enum vx_status cpu_fps(struct cpu_fps *fps, struct vx_lane *lane, const struct vx_layout *layout,
                                      void *output, struct error *error);

VX_WARN_UNUSED enum vx_status cpu_sample_points(struct vx_lane *lane, struct vx_job *job, struct error *error);

#endif
