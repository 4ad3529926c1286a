// The phases of the daemon's life. Main sets the phase; any thread reads it.
#ifndef VOXELD_PHASE_H
#define VOXELD_PHASE_H

enum phase {
  PHASE_STARTING,
  PHASE_READY,
  PHASE_LEAVING,  // /readyz is 503 for load balancers to notice; requests are accepted as before
  PHASE_DRAINING
};

// The detail of the problem for requests that are not done when the drain ends.
#define DRAIN_IS_OVER "the server is stopping and its time to drain is over"

#endif
