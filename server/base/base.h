// The small modules of this room. Any thread.
#ifndef VOXELD_BASE_H
#define VOXELD_BASE_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

#include "kernels/clock.h"

enum { ADDRESS_SIZE = 64 };  // bytes of a client's address as text (an IP address or unix:UID), with its NUL

// Main sets the phase.
enum phase {
  PHASE_STARTING,
  PHASE_READY,
  PHASE_LEAVING,  // /readyz is 503, so that load balancers notice; requests are accepted as before
  PHASE_DRAINING
};

// The problem's detail for requests that are still open when the drain ends.
#define DRAIN_IS_OVER "the server is stopping and its time to drain is over"

// Nanoseconds since 1970. For durations use clock_ns, which is monotonic.
static inline int64_t clock_wall_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return now.tv_sec * NS_PER_S + now.tv_nsec;
}

// Spins until `is_over(ctx)` is true or `until_ns` has passed, for waits shorter than waking a sleeping thread takes.
// The caller holds no lock.
static inline void spin_until(int64_t until_ns, bool (*is_over)(const void *ctx), const void *ctx) {
  enum { CHECKS = 64 };
  do {
    for (int i = 0; i < CHECKS; i++) {
      if (is_over(ctx)) return;
      clock_pause();
    }
    sched_yield();  // threads that have work go first
  } while (clock_ns() < until_ns);
}

// Whether the list, separated by commas, has the item. Ignores case.
static inline bool list_has(const char *list, const char *item) {
  for (size_t length;; list += length + 1) {
    length = strcspn(list, ",");
    if (length == strlen(item) && strncasecmp(list, item, length) == 0) return true;
    if (!list[length]) return false;
  }
}

// ---- notify.c: messages to the supervisor, such as systemd, by the protocol of sd_notify(3) -------------------------

// Sends lines of NAME=VALUE to the socket that $NOTIFY_SOCKET names. Does nothing without such a socket, or after
// STOPPING=1, so that a reload that ends later does not report READY=1. Logs a warning if it fails.
__attribute__((format(printf, 1, 2))) void notify_supervisor(const char *format, ...);

// ---- limits.c: what the system grants the process -------------------------------------------------------------------
//
// The control group (cgroup, version 1 or 2) of the process, or a group above it, may grant less than the machine has.
// `root`: the directory with /proc and /sys: "", or another directory in tests.

// max(1, min(processors of the affinity, CPU quota rounded up)).
int64_t limits_processors(const char *root);
// INT64_MAX: no limit.
int64_t limits_memory_bytes(const char *root);

// ---- process.c: the process_... metrics of Prometheus, 0 if unknown -------------------------------------------------

double process_cpu_seconds(void);
double process_resident_bytes(void);
double process_virtual_bytes(void);
double process_open_files(void);
double process_max_files(void);

#endif
