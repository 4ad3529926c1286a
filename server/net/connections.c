// See connections.h.
#include "server/net/connections.h"

#include <errno.h>
#include <linux/sockios.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/base/base.h"
#include "server/base/log.h"

enum { MOST_LOOKS = 4 };                               // idle connections to try, for one new connection
static const int64_t idle_grace_ns = 1 * NS_PER_S;     // before an idle connection makes room for a new one
static const int64_t look_again_ns = 100 * NS_PER_MS;  // after a search that found no connection to end
static const double patience_s = 2;                    // an answer that takes less time is not slow
static const int64_t linger_ns = 5 * NS_PER_S;         // the longest lingering close
static const int64_t shut_linger_ns = 1 * NS_PER_S;    // the same, if the server has shut the reading side

// ---- the slowest ----------------------------------------------------------------------------------------------------

static struct peer *slowest_of(struct watcher *watcher, const struct listener_group *group, const struct client *client,
                               int64_t now_ns) {
  struct peer *slowest = NULL;
  double least = PACE_SLOW;
  for (size_t fd = 0; fd < watcher->peers_used; fd++) {
    struct peer *peer = &watcher->peers[fd];
    if (!peer_rate_is_known(peer, now_ns) || !peer->counted) continue;
    if (peer->group != group || (client && peer->client != client)) continue;
    double rate = peer_rate(peer, now_ns);
    if (rate >= least) continue;
    slowest = peer;
    least = rate;
  }
  return slowest;
}

static void end_answer(struct peer *peer) {
  (void)shutdown(peer->fd, SHUT_RDWR);  // fails if the client has reset the connection, which then ends anyway
  peer->cut = PEER_END_PREEMPTED;       // so that it is not found again
}

struct peer *connections_end_slowest(struct watcher *watcher, const struct listener_group *group,
                                     const struct client *client, int64_t now_ns) {
  struct peer *peer = slowest_of(watcher, group, client, now_ns);
  if (!peer) return NULL;
  if (peer_move(peer, PEER_UPLOAD, PEER_FAILED)) {
    peer_write_failure(peer, ERROR_CONNECTIONS_FULL,
                       "all connections are in use, and this one moved the fewest bytes a second");
    peer->cut = PEER_END_PREEMPTED;
    (void)shutdown(peer->fd, SHUT_RD);
  } else if (atomic_load(&peer->phase) == PEER_REPLY) {
    end_answer(peer);
  } else {
    return NULL;  // its body or answer has just ended
  }
  return peer;
}

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

// Bytes of ended answers whose memory is not free yet.
static int64_t coming_back(const struct watcher *watcher) {
  int64_t bytes = 0;
  for (size_t fd = 0; fd < watcher->peers_used; fd++) {
    const struct peer *peer = &watcher->peers[fd];
    if (peer->open && peer->cut && atomic_load(&peer->phase) == PEER_REPLY) bytes += atomic_load(&peer->answer);
  }
  return bytes;
}

void connections_end_slow_answers(struct watcher *watcher, int64_t bytes, int64_t now_ns) {
  struct peer *peer;
  lock_acquire(&watcher->lock);
  bytes -= coming_back(watcher);
  for (; bytes > 0 && (peer = slowest_answer(watcher, now_ns)); bytes -= atomic_load(&peer->answer)) end_answer(peer);
  lock_release(&watcher->lock);
}

// ---- in -------------------------------------------------------------------------------------------------------------

static void uncount(struct peer *peer) {
  if (peer->counted) share_release(peer->group->clients, peer->client, SHARE_CONNECTIONS, 1);
  peer->counted = false;
}

static int64_t held_with(const struct peer *peer) {
  return client_held(peer->group->clients, peer->client, SHARE_CONNECTIONS);
}

// The connection that is idle for longest, of the newcomer's client (`own`) or of the client with the most connections
// in the group. NULL if there is none.
static struct peer *longest_idle(struct watcher *watcher, const struct peer *newcomer, bool own) {
  // A connection idle for a shorter time may have a request on its way.
  int64_t youngest_ns = clock_ns() - idle_grace_ns, longest_ns = 0, most = 0;
  struct peer *longest = NULL;
  for (size_t fd = 0; fd < watcher->peers_used; fd++) {
    struct peer *peer = &watcher->peers[fd];
    if (!peer->open || !peer->counted || peer->group != newcomer->group) continue;
    if ((own && peer->client != newcomer->client) || atomic_load(&peer->phase) != PEER_IDLE) continue;
    int64_t since_ns = atomic_load(&peer->since_ns), held = held_with(peer);
    if (since_ns > youngest_ns) continue;
    if (longest && (held < most || (held == most && since_ns >= longest_ns))) continue;
    longest = peer;
    longest_ns = since_ns;
    most = held;
  }
  return longest;
}

// Ends the connection that longest_idle finds. A connection with an unread request stays: the server is behind, so this
// sets `*late` and looks for another connection. NULL if none was ended.
static struct peer *end_longest_idle(struct watcher *watcher, const struct peer *newcomer, bool own, bool *late)
    HOLDS(watcher->lock) {
  struct peer *peer;
  for (int looks = 0; looks < MOST_LOOKS && (peer = longest_idle(watcher, newcomer, own)); looks++) {
    bool asks = peer_has_unread(peer);
    if (asks) atomic_store(&peer->since_ns, clock_ns());  // restarts its idle time, so that others are found
    *late |= asks;
    if (asks || !peer_move(peer, PEER_IDLE, PEER_FAILED)) continue;  // a request may have begun meanwhile
    (void)shutdown(peer->fd, SHUT_RDWR);
    return peer;
  }
  return NULL;
}

// Ends an idle connection or, if there is none, a slow one: with `own` of the same client, else of any client of the
// group. False if none can end, or if the server reads requests so late that rates mean nothing. A search walks all
// connections, so a search that found none is not repeated for look_again_ns.
static bool make_room(struct watcher *watcher, const struct peer *newcomer, bool own) HOLDS(watcher->lock) {
  struct client *client = own ? newcomer->client : NULL;
  int64_t *none_until_ns = own ? &client->none_until_ns : &newcomer->group->none_until_ns;
  int64_t now_ns = clock_ns();
  bool late = false;
  if (now_ns < *none_until_ns) return false;
  struct peer *peer = end_longest_idle(watcher, newcomer, own, &late);
  if (!peer && !late) peer = connections_end_slowest(watcher, newcomer->group, client, now_ns);
  if (peer)
    uncount(peer);
  else
    *none_until_ns = now_ns + look_again_ns;
  return peer;
}

// The connections of a trusted proxy stand for many clients.
static enum grant count_in(const struct peer *peer) {
  return peer->proxy ? share_acquire_for_many(peer->group->clients, peer->client, SHARE_CONNECTIONS, 1)
                     : share_acquire(peer->group->clients, peer->client, SHARE_CONNECTIONS, 1, 0);
}

// Ends another connection if there is no room. False with the reason in `*refusal`.
static bool let_in(struct watcher *watcher, struct peer *peer, enum error_kind *refusal) HOLDS(watcher->lock) {
  enum grant grant = count_in(peer);
  if (grant != GRANTED && make_room(watcher, peer, grant == OVER_CLIENT_SHARE)) grant = count_in(peer);
  *refusal = grant_error(grant, ERROR_CONNECTIONS_FULL);
  peer->counted = grant == GRANTED;
  return peer->counted;
}

// Without TLS, writes the refusal to the socket, and keeps the connection until its request comes: a reset would keep
// the client from reading the refusal. With TLS, or beyond REFUSED_PEERS such connections, shuts it at once.
static void refuse_connection(struct watcher *watcher, struct peer *peer, enum error_kind kind) HOLDS(watcher->lock) {
  atomic_store(&peer->phase, PEER_FAILED);
  peer_write_failure(peer, kind,
                     kind == ERROR_CLIENT_OVER_SHARE ? "this client already holds as many connections as are "
                                                       "still free, which is its limit"
                                                     : "all connections are in use");
  log_event(LOG_DEBUG, "a connection is refused", "client", peer->address);
  peer->refused = !peer->tls && watcher->refused_count < REFUSED_PEERS;
  watcher->refused_count += peer->refused;
  if (!peer->refused) (void)shutdown(peer->fd, SHUT_RDWR);
}

static void end(struct peer *peer) {
  atomic_store(&peer->phase, PEER_FAILED);
  (void)shutdown(peer->fd, SHUT_RDWR);
}

void connections_end_all(struct watcher *watcher) {
  lock_acquire(&watcher->lock);
  atomic_store(&watcher->ending, true);
  for (size_t fd = 0; fd < watcher->peers_used; fd++)
    if (watcher->peers[fd].open) end(&watcher->peers[fd]);
  lock_release(&watcher->lock);
}

static bool watch(struct watcher *watcher, struct peer *peer) {
  struct epoll_event event = {.events = EPOLLRDHUP | EPOLLET,
                              .data.u64 = watcher_event_key(peer->generation, peer->fd)};
  return epoll_ctl(watcher->epoll_fd, EPOLL_CTL_ADD, peer->fd, &event) == 0;
}

static struct peer *turn_away(struct watcher *watcher) {
  atomic_fetch_add(&watcher->ended[PEER_END_NO_ROOM], 1);
  return NULL;
}

struct peer *connection_opened(struct watcher *watcher, struct listener_group *group, int fd, const char *address,
                               bool proxy, struct tls_session *tls) {
  if (fd < 0 || (size_t)fd >= watcher->peer_count) return turn_away(watcher);
  struct client *client = clients_acquire(group->clients, "", address);
  if (!client) return turn_away(watcher);
  struct peer *peer = &watcher->peers[fd];
  enum error_kind refusal;
  lock_acquire(&watcher->lock);
  *peer = (struct peer){.fd = fd,
                        .generation = peer->generation + 1,
                        .since_ns = clock_ns(),
                        .group = group,
                        .client = client,
                        .proxy = proxy,
                        .tls = tls};
  snprintf(peer->address, sizeof peer->address, "%s", address);
  if ((size_t)fd >= watcher->peers_used) watcher->peers_used = (size_t)fd + 1;
  peer->open = watch(watcher, peer);
  if (peer->open && atomic_load(&watcher->ending))
    end(peer);
  else if (peer->open && !let_in(watcher, peer, &refusal))
    refuse_connection(watcher, peer, refusal);
  lock_release(&watcher->lock);
  if (!peer->open) clients_release(group->clients, client);
  if (!peer->open) return turn_away(watcher);
  atomic_fetch_add(&group->open, 1);
  return peer;
}

// ---- out ------------------------------------------------------------------------------------------------------------

// Whether a plain close may destroy answers on their way. Bytes of the client that are unread, or that come later,
// reset a closed connection.
static bool may_lose_answers(const struct peer *peer) {
  char next;
  int left = 0;
  if (!peer->asked || peer->cut || peer_is_failed(peer)) return false;
  ssize_t unread = recv(peer->fd, &next, 1, MSG_PEEK | MSG_DONTWAIT);
  if (unread >= 0 || errno != EAGAIN) return unread > 0;
  return ioctl(peer->fd, SIOCOUTQ, &left) == 0 && left > 0;
}

// Keeps a second descriptor of the socket, so that the connection outlives the library's close.
static void start_lingering(struct watcher *watcher, const struct peer *peer) {
  struct clients *clients = peer->group->clients;
  if (share_acquire(clients, peer->client, SHARE_LINGERING, 1, 0) != GRANTED) return;
  int fd = dup(peer->fd);
  if (fd < 0) share_release(clients, peer->client, SHARE_LINGERING, 1);
  if (fd < 0) return;
  (void)shutdown(fd, SHUT_WR);  // the library does this in most cases, but not in all
  // If the server has shut the reading side, an end of file says nothing about the client.
  bool shut = peer->cut || peer->failure == ERROR_BODY_STALLED || peer->failure == ERROR_DRAINING;
  int64_t until_ns = clock_ns() + (shut ? shut_linger_ns : linger_ns);
  watcher->lingering[watcher->lingering_count++] =
      (struct lingering){fd, peer->group, peer->client, shut, until_ns, LINGER_BYTES};
}

// The library may end an idle connection a little before the watcher, so two ticks are added to the idle time.
static enum peer_end end_of(const struct watcher *watcher, const struct peer *peer) HOLDS(watcher->lock) {
  int64_t idle_ns = clock_ns() - atomic_load(&peer->since_ns) + 2 * (WATCHER_TICK_MS * NS_PER_MS);
  if (peer->turned_away) return PEER_END_NO_ROOM;
  if (peer->cut) return peer->cut;
  if (peer->failure == ERROR_CLIENT_OVER_SHARE) return PEER_END_OVER_SHARE;
  if (peer->failure == ERROR_CONNECTIONS_FULL) return PEER_END_FULL;
  if (peer->failure) return PEER_END_UPLOAD;
  if (peer_is_failed(peer)) return PEER_END_MADE_ROOM;
  if (idle_ns > watcher->options->idle_timeout_s * NS_PER_S) return PEER_END_IDLE_TIMEOUT;
  if (peer->head_open) return PEER_END_HEAD;
  return peer->asked ? PEER_END_USUAL : PEER_END_NO_REQUEST;
}

void connection_closed(struct watcher *watcher, struct peer *peer) {
  struct listener_group *group = peer->group;
  struct client *client = peer->client;
  lock_acquire(&watcher->lock);
  atomic_fetch_add(&watcher->ended[end_of(watcher, peer)], 1);
  (void)epoll_ctl(watcher->epoll_fd, EPOLL_CTL_DEL, peer->fd, NULL);
  // The library may have refused an open head and left bytes unread, which would reset the connection too.
  if (peer->linger || peer->head_open || may_lose_answers(peer)) start_lingering(watcher, peer);
  peer->open = false;
  watcher->refused_count -= peer->refused;
  uncount(peer);
  lock_release(&watcher->lock);
  clients_release(group->clients, client);
  atomic_fetch_sub(&group->open, 1);
}

// ---- ended by the server --------------------------------------------------------------------------------------------

void connection_fail(struct watcher *watcher, struct peer *peer, enum error_kind kind, const char *detail) {
  lock_acquire(&watcher->lock);
  if (peer_move(peer, PEER_UPLOAD, PEER_FAILED) || peer_move(peer, PEER_PREEMPTED, PEER_FAILED))
    peer_write_failure(peer, kind, detail);
  lock_release(&watcher->lock);
}

// Takes the lock, since a thread that preempts the upload may be about to move it back to HELD. An upload that stays
// preempted is refused by its next step.
bool connection_go_on(struct watcher *watcher, struct peer *peer) {
  lock_acquire(&watcher->lock);
  atomic_store(&peer->since_bytes, atomic_load(&peer->upload.bytes));
  atomic_store(&peer->since_ns, clock_ns());
  (void)peer_move(peer, PEER_HELD, PEER_UPLOAD);
  bool failed = peer_is_failed(peer);
  lock_release(&watcher->lock);
  return !failed;
}

void connections_fail_uploads(struct watcher *watcher, enum error_kind kind, const char *detail) {
  lock_acquire(&watcher->lock);
  for (size_t fd = 0; fd < watcher->peers_used; fd++)
    if (watcher->peers[fd].open && peer_move(&watcher->peers[fd], PEER_UPLOAD, PEER_FAILED))
      peer_write_failure(&watcher->peers[fd], kind, detail);  // the next tick closes the connection
  lock_release(&watcher->lock);
}

enum error_kind connection_failure(struct watcher *watcher, const struct peer *peer) {
  if (!peer_is_failed(peer)) return ERROR_NONE;
  lock_acquire(&watcher->lock);
  enum error_kind failure = peer->failure;
  lock_release(&watcher->lock);
  return failure;
}

unsigned long long connections_refused(const struct watcher *watcher, enum error_kind kind) {
  switch (kind) {
    case ERROR_CLIENT_OVER_SHARE: return (unsigned long long)atomic_load(&watcher->ended[PEER_END_OVER_SHARE]);
    case ERROR_CONNECTIONS_FULL: return (unsigned long long)atomic_load(&watcher->ended[PEER_END_FULL]);
    default: return 0;
  }
}

void connection_linger(struct watcher *watcher, struct peer *peer) {
  lock_acquire(&watcher->lock);
  peer->linger = true;
  lock_release(&watcher->lock);
}
