// The slowest peers; see slow_peers.h.
#include "server/net/slow_peers.h"

#include <sys/socket.h>

#include "server/base/clock.h"

static const double patience_s = 2;  // an answer that goes in less is not slow

// ---- connections ----------------------------------------------------------------------------------------------------

static struct peer *slowest_of(struct watcher *watcher, const struct places *places, const struct client *client,
                               int64_t now_ns) {
  struct peer *slowest = NULL;
  double least = PACE_SLOW;
  for (size_t fd = 0; fd < watcher->peers_used; fd++) {
    struct peer *peer = &watcher->peers[fd];
    if (!peer_rate_is_known(peer, now_ns) || !peer->counted) continue;
    if (peer->places != places || (client && peer->client != client)) continue;
    double rate = peer_rate(peer, now_ns);
    if (rate >= least) continue;
    slowest = peer;
    least = rate;
  }
  return slowest;
}

static void end_answer(struct peer *peer) {
  (void)shutdown(peer->fd, SHUT_RDWR);  // fails if the client has reset it: then it is ending anyway
  peer->cut = PEER_END_PREEMPTED;       // so that it is not found again
}

struct peer *slow_peers_end_one(struct watcher *watcher, const struct places *places, const struct client *client,
                                int64_t now_ns) {
  struct peer *peer = slowest_of(watcher, places, client, now_ns);
  if (!peer) return NULL;
  if (peer_move(peer, PEER_UPLOAD, PEER_FAILED)) {
    peer_write_failure(peer, ERROR_CONNECTIONS_FULL,
                       "all connections are in use, and this one moved the fewest bytes a second");
    peer->cut = PEER_END_PREEMPTED;
    (void)shutdown(peer->fd, SHUT_RD);
  } else if (atomic_load(&peer->phase) == PEER_REPLY) {
    end_answer(peer);
  } else {
    return NULL;  // it has just come to its end
  }
  return peer;
}

// ---- memory ---------------------------------------------------------------------------------------------------------

static struct peer *slowest_answer(struct watcher *watcher, int64_t now_ns) {
  struct peer *slowest = NULL;
  double most = patience_s;
  for (size_t fd = 0; fd < watcher->peers_used; fd++) {
    struct peer *peer = &watcher->peers[fd];
    if (!peer_rate_is_known(peer, now_ns) || peer->cut || atomic_load(&peer->phase) != PEER_REPLY) continue;
    double rate = peer_rate(peer, now_ns), seconds = (double)atomic_load(&peer->answer) / (rate > 1 ? rate : 1);
    if (seconds <= most) continue;
    slowest = peer;
    most = seconds;
  }
  return slowest;
}

// Bytes of answers that were ended and whose memory is not back yet.
static int64_t coming_back(const struct watcher *watcher) {
  int64_t bytes = 0;
  for (size_t fd = 0; fd < watcher->peers_used; fd++) {
    const struct peer *peer = &watcher->peers[fd];
    if (peer->open && peer->cut && atomic_load(&peer->phase) == PEER_REPLY) bytes += atomic_load(&peer->answer);
  }
  return bytes;
}

void slow_peers_end_answers(struct watcher *watcher, int64_t bytes, int64_t now_ns) {
  struct peer *peer;
  if (bytes <= 0) return;
  lock_acquire(&watcher->lock);
  bytes -= coming_back(watcher);
  for (; bytes > 0 && (peer = slowest_answer(watcher, now_ns)); bytes -= atomic_load(&peer->answer)) end_answer(peer);
  lock_release(&watcher->lock);
}
