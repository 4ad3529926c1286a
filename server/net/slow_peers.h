// The slowest peers: their uploads and answers end first if memory or connections run short.
//
// The watcher's thread and IO threads, under the watcher's lock if a function does not say otherwise.
#ifndef VOXELD_SLOW_PEERS_H
#define VOXELD_SLOW_PEERS_H

#include "server/net/watcher.h"

// Ends the connection in `places`, of that client or (NULL) of any, whose body or answer moves most slowly. NULL if
// none is slow.
VX_WARN_UNUSED struct peer *slow_peers_end_one(struct watcher *watcher, const struct places *places,
                                               const struct client *client, int64_t now_ns);
// Without the lock: ends the slowest answers until `bytes` of memory are coming back, or none is slow any more.
void slow_peers_end_answers(struct watcher *watcher, int64_t bytes, int64_t now_ns);

#endif
