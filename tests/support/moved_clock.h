// A clock that a test moves: the test program's clock_gettime replaces the C library's. Any thread. Waits with a
// timeout still follow the real clock.
#ifndef VOXELD_TESTS_MOVED_CLOCK_H
#define VOXELD_TESTS_MOVED_CLOCK_H

#include <stdatomic.h>
#include <time.h>

#include "server/base/base.h"

static atomic_llong moved_clock_ns = 1000 * NS_PER_S;

static inline void clock_move_ms(int64_t ms) { atomic_fetch_add(&moved_clock_ns, ms * NS_PER_MS); }

// NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): libc's names are reserved
int clock_gettime(clockid_t clock, struct timespec *now) {
  (void)clock;
  long long ns = atomic_load(&moved_clock_ns);
  *now = (struct timespec){.tv_sec = ns / NS_PER_S, .tv_nsec = ns % NS_PER_S};
  return 0;
}

#endif
