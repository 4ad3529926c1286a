// Warm-up: gives the networks of models their sessions on GPUs, and runs each network once wherever it will run, so
// that the first requests are no slower than the others. At the start it also measures a sampling on a GPU and on the
// CPU.
//
// At the start and in a reload, on the thread that does it, before the models serve. A worker that has a job for a lane
// waits while the warm-up runs something there; sessions are opened beside its jobs.
#ifndef VOXELD_WARM_H
#define VOXELD_WARM_H

#include "api/detectors.h"
#include "server/jobs/jobs.h"

// How far a warm-up is: runs of networks. Any thread may read.
struct warm_progress {
  atomic_llong done, all;
};

// Each failure is logged: a network that does not run on a GPU runs on the CPU. If it runs nowhere, the model of its
// name in `before`, which serve until now, is kept in its place; without one it is refused with the reason. `before` is
// NULL if the detectors serve already. Ends early once `phase` is beyond PHASE_READY.
void warm_up(struct jobs *jobs, const struct options *options, struct detectors *detectors,
             const struct detectors *before, const atomic_int *phase, struct warm_progress *progress);

// Measures a sampling on the first GPU and on a worker of the CPU beside it, for the placement of others, if there are
// both. A failure is logged; the placement then stays as it is. Takes some 0.2 s.
void warm_placement(struct jobs *jobs);

#endif
