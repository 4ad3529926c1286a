// The watcher: one thread that sees what the HTTP library does not see (docs/contribute/libmicrohttpd.md#traps).
//
// The thread has its own epoll set of all connections. It
//   - shuts the reading side of a half-closed connection while the library waits for more: the library then wakes,
//   - fails uploads that are late or too slow (408) or preempted (503), with an answer that the client can read,
//   - ends heads that come byte by byte,
//   - ends answers that their client takes too slowly,
//   - reads on for a moment after an early answer (a lingering close),
//   - finds out whether a client that has finished sending has left; the queue then drops its job.
//
// A peer's slot has the number of its file descriptor; an event counts if it has the slot's generation. connections.h
// adds connections to the set and removes them.
#ifndef VOXELD_WATCHER_H
#define VOXELD_WATCHER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/base/lock.h"
#include "server/config/options.h"
#include "server/net/peer.h"

struct lingering {
  int fd;
  struct listener_group *group;
  struct client *client;
  bool shut;  // the server has shut its reading side
  int64_t until_ns;
  int64_t bytes_left;
};
// Connections allowed beyond max_connections: LINGER_SLOTS that linger, REFUSED_PEERS that are refused, and
// PAGES_CONNECTIONS of the listeners for pages, plus PAGES_CONNECTIONS of these that linger.
enum { WATCHER_TICK_MS = 50, LINGER_SLOTS = 256, REFUSED_PEERS = 256, PAGES_CONNECTIONS = 64 };

#define LINGER_BYTES (INT64_C(64) << 20)  // maximum that a lingering close reads

struct watcher {
  pthread_t thread;
  struct lock lock;
  int epoll_fd, stop_fd;
  const struct options *options;
  struct peer *peers;             // [peer_count], by file descriptor
  size_t peer_count, peers_used;  // slots from peers_used on were never used
  struct lingering lingering[LINGER_SLOTS + PAGES_CONNECTIONS];
  int lingering_count, refused_count;
  atomic_bool ending;           // each new connection is ended at once
  struct listener_group group;  // of the listeners that serve everything
  struct listener_group page_group;
  atomic_llong ended[PEER_ENDS];            // since the start
  void (*tick)(void *cls, int64_t now_ns);  // about every 50 ms, on the watcher's thread, without its lock
  void *tick_cls;
};

// The key of a descriptor's events: tells apart connections with the same descriptor.
static inline uint64_t watcher_event_key(uint32_t generation, int fd) {
  return (uint64_t)generation << 32 | (uint32_t)fd;
}

// `options` must stay. `page_clients` share the connections for pages. If it fails, nothing is left open.
VX_WARN_UNUSED bool watcher_start(struct watcher *watcher, const struct options *options, struct clients *clients,
                                  struct clients *page_clients, void (*tick)(void *cls, int64_t now_ns), void *tick_cls,
                                  struct error *error);
void watcher_stop(struct watcher *watcher);  // ends the thread: nothing ticks any more
void watcher_end(struct watcher *watcher);   // after the HTTP library has closed every connection

#endif
