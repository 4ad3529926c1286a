// Farthest point sampling of a job's clouds, from their points or from their voxels' means, and the job that only
// samples.
//
// Runs on the thread that has the lane; clouds may run on helpers' threads. A struct cpu_fps lives on the stack of one
// call. Its arrays are the lane's scratch.
//
// The rule, exact to the bit: the first sample is given. Each next sample is the finite point with the largest distance
// to its nearest sample so far; of several, the one with the lowest index. Distances are squared, float32: (dx*dx +
// dy*dy) + dz*dz. A point whose x, y or z is not finite takes no part. For every input, the result equals that of the
// plain loop over all points. sample_steps.h needs less work than that loop, because it skips whole boxes of points.
#ifndef VOXELD_CPU_FPS_H
#define VOXELD_CPU_FPS_H

#include "kernels/cpu/fps/sample_tree.h"
#include "kernels/kernels.h"

// Samples one cloud, on one thread. Returns false if the task was stopped; `indices` and `distances` are then
// incomplete.
VX_WARN_UNUSED bool cpu_sample(struct cpu_sampler *sampler, const struct cpu_sample_task *task);
// The same, with only the vectors that every processor of the architecture has.
VX_WARN_UNUSED bool cpu_sample_any(struct cpu_sampler *sampler, const struct cpu_sample_task *task);

// One cloud's part of the input and the output.
struct cpu_fps_cloud {
  int64_t first_row, first_sample;
  int32_t start;  // the first sample, if any
};

// The arrays for sampling one cloud.
struct cpu_fps_desk {
  int32_t *indices;  // [maximum samples of one cloud]
  float *distances;  // [maximum samples of one cloud]
  struct cpu_sampler sampler;
};

struct cpu_fps {
  struct vx_job *job;
  int32_t columns;               // C
  const float *rows;             // [sum of counts, columns]: the points or means, cloud by cloud
  const int32_t *counts;         // [num_clouds]
  int32_t most;                  // maximum rows of one cloud
  struct cpu_fps_cloud *clouds;  // [num_clouds]
  struct cpu_fps_desk desk;      // of the run's own lane
};

// Takes the arrays for clouds of up to `most` rows.
void cpu_fps_lay_out(struct cpu_fps *fps, struct cpu_arena *arena, struct vx_job *job, int32_t most);

// Finds the first sample of each cloud. VX_REFUSED if a cloud has too few finite rows. Call vx_begin_samples first.
VX_WARN_UNUSED enum vx_status cpu_fps_prepare(struct cpu_fps *fps, const float *rows, const int32_t *counts,
                                              struct error *error);

// Chooses the samples and writes their tensors, on the lane of the run and the lanes of helpers. VX_STOPPED if the job
// is stopped.
VX_WARN_UNUSED enum vx_status cpu_fps(struct cpu_fps *fps, struct vx_lane *lane, const struct vx_layout *layout,
                                      void *output, struct error *error);

// Runs a job that samples points.
VX_WARN_UNUSED enum vx_status cpu_sample_points(struct vx_lane *lane, struct vx_job *job, struct error *error);

#endif
