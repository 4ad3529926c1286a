// Warm-up: opens the sessions of networks on GPUs, and runs each network once on each lane that will run it, so that
// the first requests are as fast as later ones. Runs on the thread that starts the server, where the models already
// serve although /readyz still answers 503, or on the thread that reloads files, before the new models serve. Holds a
// worker's `busy` while it runs on the worker's lanes.
#ifndef VOXELD_WARM_H
#define VOXELD_WARM_H

#include "api/detectors.h"
#include "server/jobs/jobs.h"

// Runs of networks in a warm-up. Any thread may read.
struct warm_progress {
  atomic_llong done, all;
};

// Logs each failure. A network that fails on a GPU runs on the CPU. If a network runs nowhere, the model of the same
// name in `before`, which has served until now, stays; without one, the network's model is refused with the reason.
// `before` is NULL if the detectors already serve. Ends early when `phase` is beyond PHASE_READY.
void warm_up(struct jobs *jobs, const struct options *options, struct detectors *detectors,
             const struct detectors *before, const atomic_int *phase, struct warm_progress *progress);

// For the placement, measures a sampling on a GPU and on a CPU worker beside it, if there are both. Takes about 0.2 s.
// Logs a failure; the placement then stays as it is.
void warm_placement(struct jobs *jobs);

#endif
