// The daemon's clock: monotonic nanoseconds, and the time of day. Any thread.
#ifndef VOXELD_CLOCK_H
#define VOXELD_CLOCK_H

#include "kernels/clock.h"

// Nanoseconds since 1970.
static inline int64_t clock_wall_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return now.tv_sec * NS_PER_S + now.tv_nsec;
}

#endif
