// Runs one job on lanes: on their GPU, or on the CPU if there is no GPU for it or the GPU fails.
//
// Runs on the thread that has the lanes, a worker's or an I/O thread's (small.h), which owns the job meanwhile.
#ifndef VOXELD_RUN_H
#define VOXELD_RUN_H

#include "kernels/kernels.h"
#include "server/jobs/job.h"

struct lanes {
  struct device *gpu;  // NULL: the CPU only
  struct vx_lane *on_gpu, *on_cpu;
  bool alone;  // nobody helps
};

enum job_step {
  JOB_RAN,        // it has an answer or a problem, and holds nothing but its answer
  JOB_ELSEWHERE,  // its body says that it goes to lanes of another use (job_lane_use), where it has a slot
  JOB_WAITS       // it is another's turn in its stream
};

VX_WARN_UNUSED enum job_step job_run(struct job *job, const struct lanes *lanes, enum vx_lane_use use);
// Releases all that the job holds but its answer, in this order: its queue slot, its memory, its detector, the regions
// that it uses, and its turn in its stream. Does nothing for what it does not hold.
void job_release(struct job *job);

#endif
