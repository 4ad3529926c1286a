// The phases of the daemon's life. Main moves it; any thread looks.
#ifndef VOXELD_PHASE_H
#define VOXELD_PHASE_H

enum phase {
  PHASE_STARTING,
  PHASE_READY,
  PHASE_LEAVING,  // requests are taken as before; who directs them here is to notice that it is not ready
  PHASE_DRAINING
};

// What is told to those that are not done by the drain's end.
#define DRAIN_IS_OVER "the server is stopping and its time to drain is over"

#endif
