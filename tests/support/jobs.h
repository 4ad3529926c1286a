// How tests and benchmarks make jobs: first the parameters and the number of columns, then the scan.
#ifndef VOXELD_TESTS_JOBS_H
#define VOXELD_TESTS_JOBS_H

#include "kernels/backends.h"
#include "kernels/ops.h"

// A copy of the job `asked`, with these clouds as its points. The caller must still set `caller` and `row_counts`.
static inline struct vx_job job_over(const struct vx_job *asked, const void *points, int32_t num_clouds,
                                     const int32_t *point_counts) {
  struct vx_job job = *asked;
  struct vx_input *input = &job.inputs[VX_POINTS];
  job.num_clouds = num_clouds;
  job.point_counts = point_counts;
  input->data = points;
  if (input->rank == VX_MAX_RANK) return job;  // a map, whose dims include the clouds
  input->dims[0] = 0;
  for (int32_t cloud = 0; cloud < num_clouds; cloud++) input->dims[0] += point_counts[cloud];
  return job;
}

// The sampling of a job of fps or voxelize, which may be disabled.
static inline struct vx_sampling *job_sampling(struct vx_job *job) {
  return job->op == VX_FPS ? &job->params.fps.sampling : &job->params.voxelize.sampling;
}

static inline int32_t job_columns(const struct vx_job *job) { return (int32_t)job->inputs[VX_POINTS].dims[1]; }

#endif
