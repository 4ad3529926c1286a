// Waiting awake for what another thread is about to do: for times in which a thread could not be woken.
#ifndef VOXELD_AWAKE_H
#define VOXELD_AWAKE_H

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>

#include "server/base/clock.h"

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

// Locks what threads on other processors mostly hold for less than a microsecond: to sleep on it and be woken would
// take a hundred times as long.
static inline void awake_lock(pthread_mutex_t *lock) {
  enum { TRIES = 100 };
  for (int i = 0; i < TRIES; i++) {
    if (pthread_mutex_trylock(lock) == 0) return;
    clock_pause();
  }
  pthread_mutex_lock(lock);
}

#endif
