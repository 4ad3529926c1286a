// Progress; see progress.h.
#include "server/net/progress.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <stddef.h>
#include <sys/socket.h>

#include "server/base/clock.h"

static const int64_t young_ns = 100 * NS_PER_MS;  // too young to be looked at
static const int64_t grace_ns = 1 * NS_PER_S;     // before a rate is told

// Bytes that the other side has acknowledged. -1 if the socket does not tell: it is not TCP, or the kernel is old.
static int64_t acknowledged(int fd) {
  struct tcp_info info;
  socklen_t size = sizeof info;
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return -1;
  size_t needed = offsetof(struct tcp_info, tcpi_bytes_acked) + sizeof info.tcpi_bytes_acked;
  return size < needed ? -1 : (int64_t)info.tcpi_bytes_acked;
}

static bool is_moving(int phase) { return phase == PEER_UPLOAD || phase == PEER_REPLY; }

static int64_t moved(const struct peer *peer) {
  return atomic_load(&peer->phase) == PEER_REPLY ? acknowledged(peer->fd) : atomic_load(&peer->received);
}

void progress_note(struct peer *peer, int64_t now_ns) {
  int64_t since_ns = atomic_load(&peer->since_ns);
  if (!is_moving(atomic_load(&peer->phase)) || now_ns - since_ns < young_ns) return;
  if (peer->paced_since_ns == since_ns)
    pace_note(&peer->pace, moved(peer), now_ns);
  else
    pace_begin(&peer->pace, moved(peer), now_ns);
  peer->paced_since_ns = since_ns;
}

bool progress_is_known(const struct peer *peer, int64_t now_ns) {
  int64_t since_ns = atomic_load(&peer->since_ns);
  return peer->open && is_moving(atomic_load(&peer->phase)) && peer->paced_since_ns == since_ns &&
         now_ns - since_ns >= grace_ns;
}

double progress_rate(const struct peer *peer, int64_t now_ns) {
  int64_t bytes = moved(peer);
  if (bytes >= 0) return pace_rate(&peer->pace, bytes, now_ns);
  // An answer whose progress cannot be seen: as if it had been taken whole by now.
  int64_t elapsed_ns = now_ns - atomic_load(&peer->since_ns);
  return (double)atomic_load(&peer->answer) * (double)NS_PER_S / (double)(elapsed_ns > 0 ? elapsed_ns : 1);
}
