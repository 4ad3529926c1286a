// A mutex that `./dev lint` checks by clang's thread-safety analysis: a HOLDS function must be called with the lock,
// and a function must release what it acquires. Any thread.
#ifndef VOXELD_LOCK_H
#define VOXELD_LOCK_H

#include <pthread.h>

#if defined(__clang__)
#define LOCK_ATTRIBUTE(name) __attribute__((name))
#else
#define LOCK_ATTRIBUTE(name)
#endif
// Written after a function's parameters. HOLDS: the caller holds the lock.
#define HOLDS(lock) LOCK_ATTRIBUTE(requires_capability(lock))
#define ACQUIRES(lock) LOCK_ATTRIBUTE(acquire_capability(lock))
#define RELEASES(lock) LOCK_ATTRIBUTE(release_capability(lock))
// For a function whose locks the analysis cannot follow.
#define LOCK_UNCHECKED LOCK_ATTRIBUTE(no_thread_safety_analysis)

struct LOCK_ATTRIBUTE(capability("mutex")) lock {
  pthread_mutex_t mutex;
};

#define LOCK_INITIALIZER                                                                                               \
  { PTHREAD_MUTEX_INITIALIZER }
static inline void lock_init(struct lock *lock) { pthread_mutex_init(&lock->mutex, NULL); }
static inline void lock_end(struct lock *lock) { pthread_mutex_destroy(&lock->mutex); }

static inline void lock_acquire(struct lock *lock) ACQUIRES(*lock) LOCK_UNCHECKED { pthread_mutex_lock(&lock->mutex); }

static inline void lock_release(struct lock *lock) RELEASES(*lock) LOCK_UNCHECKED {
  pthread_mutex_unlock(&lock->mutex);
}

static inline void lock_wait(struct lock *lock, pthread_cond_t *condition) HOLDS(*lock) {
  pthread_cond_wait(condition, &lock->mutex);
}

#endif
