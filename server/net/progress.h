// How fast a peer's body comes, or its answer goes.
//
// The watcher's thread and IO threads, under the watcher's lock.
#ifndef VOXELD_PROGRESS_H
#define VOXELD_PROGRESS_H

#include "server/net/peer.h"

// To be called several times in each half second.
void progress_note(struct peer *peer, int64_t now_ns);
// Whether the rate is known: a body or an answer has been under way for a while.
bool progress_is_known(const struct peer *peer, int64_t now_ns);
// Bytes a second, if it is known.
double progress_rate(const struct peer *peer, int64_t now_ns);

#endif
