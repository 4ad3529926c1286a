// Runs one job: on the lanes' GPU or, if there is none that can run it or the GPU fails, on the CPU.
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
  JOB_ELSEWHERE,  // the job has a slot in the queue of other lanes, whose use (job_lane_use) or GPU its body needs
  JOB_WAITS       // another job has the turn in its stream
};

VX_WARN_UNUSED enum job_step job_run(struct job *job, const struct lanes *lanes, enum vx_lane_use use);
// Releases all that the job holds, except its answer.
void job_release(struct job *job);

#endif
