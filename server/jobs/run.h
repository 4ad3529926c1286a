// Runs one job on lanes: on their GPU, or on the CPU if they have no GPU that can run the job or if the GPU fails.
//
// The thread that has the lanes runs and owns the job: a worker or, for a small job, an I/O thread.
#ifndef VOXELD_RUN_H
#define VOXELD_RUN_H

#include "kernels/kernels.h"
#include "server/jobs/job.h"

struct lanes {
  struct device *gpu;  // NULL: the CPU only
  struct vx_lane *on_gpu, *on_cpu;
  bool alone;  // no worker helps
};

enum job_step {
  JOB_RAN,        // the job has an answer or an error, and holds nothing but its answer
  JOB_ELSEWHERE,  // the body needs lanes of another use (job_lane_use) or GPU; the job has a slot in their queue
  JOB_WAITS       // another job has the turn in its stream
};

VX_WARN_UNUSED enum job_step job_run(struct job *job, const struct lanes *lanes, enum vx_lane_use use);
// Releases what the job holds, except its answer: queue slot, memory, detector, regions and the turn in its stream.
void job_release(struct job *job);

#endif
