// Placement: whether a job that samples one cloud runs on a GPU, or on an idle CPU worker beside the GPUs. Each sample
// depends on the one before, so one CPU thread may be as fast as a GPU.
//
// An idle CPU worker takes the job if the CPU should finish it before the GPUs would, including the work that waits for
// the GPUs. A free GPU takes every other job. The expected time follows from the points and samples of a job, by
// measured constants. At the start, one sampling on each target scales these constants to this machine.
//
// No job starts on the CPU
// - if jobs and the other threads of the process would then use all processors,
// - if the job is expected to take longer than 0.1 s, since processors must become free soon,
// - if the job has so many points that a CPU lane would take memory of the budget.
//
// Reads no clock. Its owner locks it; members that other threads access are atomic.
#ifndef VOXELD_PLACEMENT_H
#define VOXELD_PLACEMENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "kernels/kernels.h"

enum target { TARGET_GPU, TARGET_CPU, TARGETS };

enum { PLACEMENT_POINTS = 16384, PLACEMENT_SAMPLES = 2048 };

struct placement {
  const atomic_int *gpus;             // GPUs that work
  const atomic_llong *running;        // [VX_LANE_USES]: jobs that run, on both targets
  int64_t processors;                 // processors that jobs may use
  atomic_llong used;                  // thousandths of processors that the process uses, except for jobs on the CPU
  atomic_llong measured_ns[TARGETS];  // of the sampling at the start
  atomic_llong at_work[TARGETS];      // jobs that run
  atomic_llong answered[TARGETS];     // jobs, since the start
  atomic_llong running_ns;            // expected GPU time of running jobs
  int64_t waiting_ns;                 // expected GPU time of waiting jobs
};

// The expected time of a job on each target.
struct placement_cost {
  int64_t ns[TARGETS];
};

void placement_init(struct placement *placement, const atomic_int *gpus, const atomic_llong running[VX_LANE_USES],
                    int64_t processors);

// `single`: the job samples one cloud that the CPU can read. The CPU takes no other job.
struct placement_cost placement_cost(const struct placement *placement, bool single, int64_t points, int64_t samples);

// Where a waiting job should run now. TARGETS: the job keeps waiting. `ahead`: the part (0..1) of all waiting work that
// is done when the last waiting job of this job's client is done.
enum target placement_choose(const struct placement *placement, const struct placement_cost *cost, double ahead,
                             const bool is_free[TARGETS]);

void placement_wait_begin(struct placement *placement, const struct placement_cost *cost);
void placement_wait_end(struct placement *placement, const struct placement_cost *cost);
void placement_begin(struct placement *placement, enum target target, const struct placement_cost *cost);
void placement_end(struct placement *placement, enum target target, const struct placement_cost *cost);

// Whether one more job may run on the CPU now.
bool placement_has_room(const struct placement *placement);
// `used`: thousandths of processors, as in the member, since the last call. A rise counts at once, a fall gradually.
void placement_note_used(struct placement *placement, int64_t used);

#endif
