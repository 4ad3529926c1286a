// Waiting awake for what another thread is about to do: for times in which a thread could not be woken.
#ifndef VOXELD_AWAKE_H
#define VOXELD_AWAKE_H

#include <sched.h>
#include <stdbool.h>

#include "server/base/clock.h"
#include "server/base/lock.h"

// Returns once `came(cls)` is true, or the time has passed. No lock is held.
static inline void awake_until(int64_t until_ns, bool (*came)(const void *cls), const void *cls) {
  enum { LOOKS = 64 };
  do {
    for (int i = 0; i < LOOKS; i++) {
      if (came(cls)) return;
      clock_pause();
    }
    sched_yield();  // threads that have work go first
  } while (clock_ns() < until_ns);
}

#endif
