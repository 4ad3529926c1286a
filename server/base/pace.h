// How fast bytes move: the rate of the window before, or of the present one if that is higher. A pause of half a second
// is no slowness yet. Its owner locks.
#ifndef VOXELD_PACE_H
#define VOXELD_PACE_H

#include <stdbool.h>
#include <stdint.h>

#include "server/base/clock.h"

#define PACE_WINDOW_NS (500 * NS_PER_MS)
#define PACE_LEAST_NS (50 * NS_PER_MS)  // a shorter time tells no rate
#define PACE_SLOW (128 * 1024)          // bytes a second: what moves more slowly has to make room for any other

struct pace {
  int64_t since_ns, bytes;  // when the present window began, and the bytes until then
  double rate;              // bytes a second in the window before
  bool is_known;            // there was a window before
};

static inline void pace_begin(struct pace *pace, int64_t bytes, int64_t now_ns) {
  *pace = (struct pace){.since_ns = now_ns, .bytes = bytes};
}

// Bytes a second. `bytes` have moved in all.
static inline double pace_rate(const struct pace *pace, int64_t bytes, int64_t now_ns) {
  int64_t elapsed_ns = now_ns - pace->since_ns > PACE_LEAST_NS ? now_ns - pace->since_ns : PACE_LEAST_NS;
  double rate = (double)(bytes - pace->bytes) * (double)NS_PER_S / (double)elapsed_ns;
  return rate > pace->rate ? rate : pace->rate;
}

// To be called several times in each window.
static inline void pace_note(struct pace *pace, int64_t bytes, int64_t now_ns) {
  int64_t elapsed_ns = now_ns - pace->since_ns;
  if (elapsed_ns < PACE_WINDOW_NS) return;
  double rate = (double)(bytes - pace->bytes) * (double)NS_PER_S / (double)elapsed_ns;
  *pace = (struct pace){now_ns, bytes, rate, true};
}

#endif
