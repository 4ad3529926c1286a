// Placement: whether a job that samples one cloud runs on a GPU, or on an idle worker of the CPU beside the GPUs. The
// bytes are the same. Each sample depends on the one before it, so one thread of the CPU may be as fast as a GPU.
//
// The rule: an idle worker of the CPU takes the job if the CPU should finish it before the GPUs would, after the work
// that is before it. A free GPU takes every other job. How long a run should take follows from its points and samples,
// by constants that were measured once. A sampling on each target at the start says how this machine compares.
//
// Jobs on the CPU take nothing that others need. No job begins there
// - if all processors would be in use with it, by jobs and by all other threads of the process,
// - if it should take longer than 0.1 s, so that processors come free again soon,
// - if it has many points, for which a CPU lane would take memory of the budget.
//
// The model knows no clock. Its owner locks; what others may read or write is atomic.
#ifndef VOXELD_PLACEMENT_H
#define VOXELD_PLACEMENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "kernels/kernels.h"

enum target { TARGET_GPU, TARGET_CPU, TARGETS };

// The sampling that is measured at the start.
enum { PLACEMENT_POINTS = 16384, PLACEMENT_SAMPLES = 2048 };

struct placement {
  const atomic_int *gpus;             // that work
  const atomic_llong *running;        // [VX_LANE_USES]: jobs that run, on both targets
  int64_t processors;                 // that jobs may use
  atomic_llong used;                  // thousandths of processors that the process uses, but for jobs on the CPU
  atomic_llong measured_ns[TARGETS];  // of the sampling at the start
  atomic_llong at_work[TARGETS];      // jobs that run
  atomic_llong answered[TARGETS];     // jobs, since the start
  atomic_llong running_ns;            // that GPUs should take for the jobs that they run
  int64_t waiting_ns;                 // and for those that wait
};

// What a job should take on each target.
struct placement_cost {
  int64_t ns[TARGETS];
};

void placement_init(struct placement *placement, const atomic_int *gpus, const atomic_llong running[VX_LANE_USES],
                    int64_t processors);

// `single`: the job samples one cloud that the CPU can read. The CPU takes no other job.
struct placement_cost placement_cost(const struct placement *placement, bool single, int64_t points, int64_t samples);

// Where a job that waits should run now. TARGETS: nowhere, it waits on. `ahead`: the part of the work that waits, 0..1,
// that its client has to wait for.
enum target placement_choose(const struct placement *placement, const struct placement_cost *cost, double ahead,
                             const bool is_free[TARGETS]);

// A job begins to wait, or waits no more.
void placement_wait(struct placement *placement, const struct placement_cost *cost);
void placement_leave(struct placement *placement, const struct placement_cost *cost);
// A job begins to run, or ends.
void placement_begin(struct placement *placement, enum target target, const struct placement_cost *cost);
void placement_end(struct placement *placement, enum target target, const struct placement_cost *cost);

// Whether one more job may run on the CPU now.
bool placement_has_room(const struct placement *placement);
// Notes what the process used since it was last noted, in thousandths of processors.
void placement_note_used(struct placement *placement, int64_t used);

#endif
