// The last two clients that asked, to tell whether a client is alone. Its owner locks.
#ifndef VOXELD_RECENCY_H
#define VOXELD_RECENCY_H

#include <stdbool.h>
#include <stdint.h>

#include "server/base/clock.h"
#include "server/clients/clients.h"

struct recency {
  const struct client *last, *other;  // the last that asked, and the last other one; never dereferenced
  int64_t last_ns, other_ns;
};

static inline void recency_note(struct recency *recency, const struct client *client, int64_t now_ns) {
  if (recency->last != client) {
    recency->other = recency->last;
    recency->other_ns = recency->last_ns;
    recency->last = client;
  }
  recency->last_ns = now_ns;
}

// Whether somebody else asked within the last second.
static inline bool recency_others(const struct recency *recency, const struct client *client, int64_t now_ns) {
  bool own = recency->last == client;
  return (own ? recency->other : recency->last) && now_ns - (own ? recency->other_ns : recency->last_ns) < NS_PER_S;
}

#endif
