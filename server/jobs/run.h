// Runs one job on a worker's lanes: on its GPU, or on the CPU if there is no GPU for it or the GPU fails.
//
// Runs on the worker's thread, which owns the job meanwhile.
#ifndef VOXELD_RUN_H
#define VOXELD_RUN_H

#include "kernels/kernels.h"
#include "server/jobs/job.h"

struct lanes {
  struct device *gpu;  // NULL: the CPU only
  struct vx_lane *on_gpu, *on_cpu;
};

// Leaves the answer or the problem in the job. Gives back the job's place, its input and its scratch. False: its body
// says that it goes to lanes of another use (job_lane_use), and it has a place there.
VX_WARN_UNUSED bool job_run(struct job *job, const struct lanes *lanes, enum vx_lane_use use);
// Gives back what a job with a result holds beside its answer.
void job_end(struct job *job);

#endif
