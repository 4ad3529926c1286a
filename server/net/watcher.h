// The watcher: one thread that sees what the HTTP library does not.
//
// libmicrohttpd in epoll mode never notices a client that closes in mid-upload (the end of file hides behind the last
// data and no new edge comes), has only an inactivity timeout (a byte a second keeps a request alive), and closes a
// connection so abruptly after an early answer that a client still sending loses the answer. The watcher keeps an epoll
// set of its own over all connections and
//   - pokes the library (SHUT_RD makes a new edge) while it expects more from a half-closed connection,
//   - fails uploads that are late or too slow, with a 408 that the client can read, and ends heads that come byte by
//     byte,
//   - ends answers that their client takes too slowly,
//   - reads on for a moment after an early answer (a lingering close),
//   - finds out whether a client that has finished sending is gone or waits for its answer, and lets the queue drop
//     what needs no run any more,
//   - lets connections in by their clients' shares: where there are too many, the longest idle one goes.
//
// A peer's slot is found by file descriptor and its event checked by generation. What comes and goes is in
// connections.h.
#ifndef VOXELD_WATCHER_H
#define VOXELD_WATCHER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/net/peer.h"

struct watcher_limits {
  int64_t idle_timeout_ns;  // between requests, the head of the next one included
  int64_t upload_timeout_ns;
  int64_t send_timeout_ns;
  int64_t upload_min_rate;  // bytes a second; 0 = any
};

struct lingering {
  int fd;
  struct client *client;
  bool shut;  // its reading side was shut from here
  int64_t until_ns;
  int64_t bytes_left;
};
enum { WATCHER_TICK_MS = 50, LINGER_SLOTS = 256, REFUSED_PEERS = 256 };  // beside the connections that may be open

#define LINGER_BYTES (INT64_C(64) << 20)  // that a lingering close reads at most

struct watcher {
  pthread_t thread;
  pthread_mutex_t lock;
  int epoll_fd, stop_fd;
  struct watcher_limits limits;
  struct peer *peers;             // [peer_count], by file descriptor
  size_t peer_count, peers_used;  // slots ever used are below peers_used
  struct lingering lingering[LINGER_SLOTS];
  int lingering_count, refused_count;
  int64_t none_until_ns;  // connections.c has looked in vain for one that makes room
  atomic_llong connections;
  atomic_bool ending;  // whoever comes is sent away
  struct clients *clients;
  atomic_llong ended[PEER_ENDS];            // connections, since the start
  void (*tick)(void *cls, int64_t now_ns);  // called about every 50 ms, on the watcher's thread, without its lock
  void *tick_cls;
};

// The key of the events of a descriptor, in that use of its slot.
static inline uint64_t watcher_event_key(uint32_t generation, int fd) {
  return (uint64_t)generation << 32 | (uint32_t)fd;
}

VX_WARN_UNUSED bool watcher_start(struct watcher *watcher, const struct watcher_limits *limits, struct clients *clients,
                                  void (*tick)(void *cls, int64_t now_ns), void *tick_cls, char *error,
                                  size_t error_size);
void watcher_halt(struct watcher *watcher);     // ends the thread: nothing ticks any more
void watcher_destroy(struct watcher *watcher);  // after the HTTP library has closed every connection

#endif
