// The watcher thread; see watcher.h.
#include "server/watcher.h"

#include <errno.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/clock.h"

enum { TICK_MS = 50, EVENTS = 64 };
static const int64_t grace_ns = 5 * NS_PER_S;        // before the minimum rate holds
static const int64_t idle_grace_ns = 1 * NS_PER_S;   // before an idle connection makes room for a new one
static const int64_t refused_ns = 1 * NS_PER_S;      // for a refused connection to come with its request
static const int64_t linger_ns = 5 * NS_PER_S;       // the longest lingering close
static const int64_t shut_linger_ns = 1 * NS_PER_S;  // and that of a connection whose reading side was shut
static const int64_t linger_bytes = 64 << 20;        // and the most it reads
static const uint64_t stop_event = UINT64_MAX;       // no descriptor's event has this key

static uint64_t event_key(uint32_t generation, int fd) { return (uint64_t)generation << 32 | (uint32_t)fd; }

// ---- peers ------------------------------------------------------------------------------------------------------------

static struct peer *turn_away(struct watcher *watcher) {
  atomic_fetch_add(&watcher->ended[PEER_END_NO_ROOM], 1);
  return NULL;
}

// With the lock held: ends what the peer does with an error that is written straight to its socket. Before an answer the send
// buffer is empty, so the short text goes out whole or not at all.
static void write_failure(struct peer *peer, enum problem_kind kind, const char *detail) {
  struct problem problem;
  char body[1024], message[1536], traceparent[TRACEPARENT_LENGTH + 1];
  (void)problem_set(&problem, kind, NULL, "%s", detail);
  peer->failure = kind;
  if (peer->tls) return;  // its records are the IO thread's to write, and the library lets it write none now
  peer->linger = true;
  struct text text = text_over(body, sizeof body);
  problem_render(&problem, peer->request_id, &text);
  const struct problem_info *info = problem_info(kind);
  char retry[32] = "", names[256] = "";
  if (info->retry_after) snprintf(retry, sizeof retry, "Retry-After: %d\r\n", info->retry_after);
  trace_write(&peer->trace, traceparent);
  if (peer->request_id[0])  // not where a connection is refused before any request
    snprintf(names, sizeof names, "X-Request-Id: %s\r\ntraceparent: %s\r\n", peer->request_id, traceparent);
  int length =
      snprintf(message, sizeof message,
               "HTTP/1.1 %d %s\r\nContent-Type: " PROBLEM_MEDIA_TYPE "\r\n%s%s"
               "Content-Length: %zu\r\nConnection: close\r\n\r\n%s",
               info->status, MHD_get_reason_phrase_for((unsigned)info->status), names, retry, text.length, body);
  (void)send(peer->fd, message, (size_t)length, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static bool move(struct peer *peer, int from, int to) {
  return atomic_compare_exchange_strong(&peer->phase, &from, to);
}

static void uncount(struct watcher *watcher, struct peer *peer) {
  if (peer->counted) client_give(watcher->clients, peer->client, SHARE_CONNECTIONS, 1);
  peer->counted = false;
}

static struct peer *longest_idle(struct watcher *watcher, const struct client *client) {
  // A younger one may have a request on its way.
  int64_t longest_ns = clock_ns() - idle_grace_ns;
  struct peer *longest = NULL;
  for (size_t fd = 0; fd < watcher->peers_used; fd++) {
    struct peer *peer = &watcher->peers[fd];
    if (!peer->open || !peer->counted || (client && peer->client != client)) continue;
    if (atomic_load(&peer->phase) != PEER_IDLE) continue;
    int64_t since_ns = atomic_load(&peer->since_ns);
    if (since_ns > longest_ns) continue;
    longest = peer;
    longest_ns = since_ns;
  }
  return longest;
}

// With the lock held: ends the connection, of that client or (NULL) of any, that has been idle longest. False if none has been
// for a while.
static bool end_longest_idle(struct watcher *watcher, const struct client *client) {
  struct peer *peer;
  do {
    peer = longest_idle(watcher, client);
  } while (peer && !move(peer, PEER_IDLE, PEER_FAILED));  // a request of it may begin just now
  if (!peer) return false;
  uncount(watcher, peer);
  (void)shutdown(peer->fd, SHUT_RDWR);
  return true;
}

// With the lock held: the new peer counts to its client's connections. False with what stands against it.
static bool let_in(struct watcher *watcher, struct peer *peer, enum problem_kind *refusal) {
  enum grant grant = client_take(watcher->clients, peer->client, SHARE_CONNECTIONS, 1, 0);
  if (grant != GRANTED && end_longest_idle(watcher, grant == OVER_CLIENT_SHARE ? peer->client : NULL))
    grant = client_take(watcher->clients, peer->client, SHARE_CONNECTIONS, 1, 0);
  *refusal = grant == OVER_CLIENT_SHARE ? PROBLEM_CLIENT_OVER_SHARE : PROBLEM_CONNECTIONS_FULL;
  peer->counted = grant == GRANTED;
  return peer->counted;
}

// With the lock held. The library closes it once it comes with a request, which keeps the client able to read the answer.
static void refuse_connection(struct watcher *watcher, struct peer *peer, enum problem_kind kind) {
  atomic_store(&peer->phase, PEER_FAILED);
  write_failure(peer, kind,
                kind == PROBLEM_CLIENT_OVER_SHARE ? "this client has as many connections as are left to others"
                                                  : "all connections are in use");
  peer->refused = !peer->tls && watcher->refused_count < REFUSED_PEERS;
  watcher->refused_count += peer->refused;
  if (!peer->refused) (void)shutdown(peer->fd, SHUT_RDWR);
}

static bool watch(struct watcher *watcher, struct peer *peer) {
  struct epoll_event event = {.events = EPOLLRDHUP | EPOLLET, .data.u64 = event_key(peer->generation, peer->fd)};
  return epoll_ctl(watcher->epoll_fd, EPOLL_CTL_ADD, peer->fd, &event) == 0;
}

struct peer *watcher_opened(struct watcher *watcher, int fd, const char *address, struct tls_session *tls) {
  if (fd < 0 || (size_t)fd >= watcher->peer_count) return turn_away(watcher);
  struct client *client = clients_join(watcher->clients, "", address);
  if (!client) return turn_away(watcher);
  struct peer *peer = &watcher->peers[fd];
  enum problem_kind refusal;
  pthread_mutex_lock(&watcher->lock);
  *peer =
      (struct peer){.fd = fd, .generation = peer->generation + 1, .since_ns = clock_ns(), .client = client, .tls = tls};
  snprintf(peer->address, sizeof peer->address, "%s", address);
  if ((size_t)fd >= watcher->peers_used) watcher->peers_used = (size_t)fd + 1;
  peer->open = watch(watcher, peer);
  if (peer->open && !let_in(watcher, peer, &refusal)) refuse_connection(watcher, peer, refusal);
  pthread_mutex_unlock(&watcher->lock);
  if (!peer->open) clients_leave(watcher->clients, client);
  if (!peer->open) return turn_away(watcher);
  atomic_fetch_add(&watcher->connections, 1);
  return peer;
}

// Keeps a second descriptor of the socket so that the library's close does not end the connection yet.
static void start_lingering(struct watcher *watcher, const struct peer *peer) {
  if (watcher->lingering_count == LINGER_SLOTS) return;
  int fd = dup(peer->fd);
  if (fd < 0) return;
  // Where the reading side was shut from here an end of file says nothing about the client.
  bool shut = peer->failure == PROBLEM_BODY_STALLED;
  watcher->lingering[watcher->lingering_count++] =
      (struct lingering){fd, shut, clock_ns() + (shut ? shut_linger_ns : linger_ns), linger_bytes};
}

const char *peer_end_name(enum peer_end end) {
  static const char *const names[PEER_ENDS] = {
      "usual",      "idle_timeout", "upload_failed", "send_timeout",      "head",
      "no_request", "no_room",      "made_room",     "client_over_share", "connections_full"};
  return names[end];
}

bool peer_is_failed(const struct peer *peer) { return atomic_load(&peer->phase) == PEER_FAILED; }

// With the lock held. The library, which has an eye on idleness too, may have been a little earlier than the watcher.
static enum peer_end end_of(const struct watcher *watcher, const struct peer *peer) {
  int64_t idle_ns = clock_ns() - atomic_load(&peer->since_ns) + 2 * (TICK_MS * NS_PER_MS);
  if (peer->turned_away) return PEER_END_NO_ROOM;
  if (peer->failure == PROBLEM_CLIENT_OVER_SHARE) return PEER_END_OVER_SHARE;
  if (peer->failure == PROBLEM_CONNECTIONS_FULL) return PEER_END_FULL;
  if (peer->failure) return PEER_END_UPLOAD;
  if (peer_is_failed(peer)) return PEER_END_MADE_ROOM;
  if (peer->cut_off) return PEER_END_SEND_TIMEOUT;
  if (idle_ns > watcher->limits.idle_timeout_ns) return PEER_END_IDLE_TIMEOUT;
  if (peer->head_open) return PEER_END_HEAD;
  return peer->asked ? PEER_END_USUAL : PEER_END_NO_REQUEST;
}

void watcher_closed(struct watcher *watcher, struct peer *peer) {
  pthread_mutex_lock(&watcher->lock);
  atomic_fetch_add(&watcher->ended[end_of(watcher, peer)], 1);
  (void)epoll_ctl(watcher->epoll_fd, EPOLL_CTL_DEL, peer->fd, NULL);
  if (peer->linger) start_lingering(watcher, peer);
  peer->open = false;
  watcher->refused_count -= peer->refused;
  uncount(watcher, peer);
  pthread_mutex_unlock(&watcher->lock);
  clients_leave(watcher->clients, peer->client);
  atomic_fetch_sub(&watcher->connections, 1);
}

bool peer_upload_begin(struct peer *peer, const char *request_id, const struct trace *trace, bool takes_interim,
                       int64_t now_ns) {
  // Seen by the watcher only in the phases after IDLE.
  peer->trace = *trace;
  snprintf(peer->request_id, sizeof peer->request_id, "%s", request_id);
  peer->takes_interim = takes_interim;
  peer->probed = false;
  atomic_store(&peer->received, 0);
  atomic_store(&peer->since_ns, now_ns);
  return move(peer, PEER_IDLE, PEER_UPLOAD);
}

void peer_upload_hold(struct peer *peer) { (void)move(peer, PEER_UPLOAD, PEER_HELD); }

bool peer_upload_go_on(struct peer *peer, int64_t now_ns) {
  atomic_store(&peer->since_ns, now_ns);
  return move(peer, PEER_HELD, PEER_UPLOAD);
}

void peer_upload_progress(struct peer *peer, size_t bytes) { atomic_fetch_add(&peer->received, (long long)bytes); }

bool peer_upload_end(struct peer *peer) { return move(peer, PEER_UPLOAD, PEER_JOB); }

void peer_reply_begin(struct peer *peer, int64_t now_ns) {
  atomic_store(&peer->since_ns, now_ns);
  // A probe is one system call: nothing else may be written in the meantime.
  while (!move(peer, PEER_JOB, PEER_REPLY) && atomic_load(&peer->phase) == PEER_PROBED) clock_pause();
}

void peer_reply_end(struct peer *peer, int64_t now_ns) {
  atomic_store(&peer->since_ns, now_ns);
  if (!move(peer, PEER_REPLY, PEER_IDLE)) (void)move(peer, PEER_JOB, PEER_IDLE);
}

void peer_fail(struct watcher *watcher, struct peer *peer, enum problem_kind kind, const char *detail) {
  if (!move(peer, PEER_UPLOAD, PEER_FAILED)) return;
  pthread_mutex_lock(&watcher->lock);
  write_failure(peer, kind, detail);
  pthread_mutex_unlock(&watcher->lock);
}

enum problem_kind peer_failure(struct watcher *watcher, const struct peer *peer) {
  pthread_mutex_lock(&watcher->lock);
  enum problem_kind failure = peer->failure;
  pthread_mutex_unlock(&watcher->lock);
  return failure;
}

void peer_linger(struct watcher *watcher, struct peer *peer) {
  pthread_mutex_lock(&watcher->lock);
  peer->linger = true;
  pthread_mutex_unlock(&watcher->lock);
}

// ---- the thread -------------------------------------------------------------------------------------------------------

// Why an upload must end now, or NULL.
static const char *upload_fault(const struct watcher *watcher, struct peer *peer, int64_t now_ns) {
  int64_t elapsed = now_ns - atomic_load(&peer->since_ns);
  if (elapsed > watcher->limits.upload_timeout_ns) return "the body did not come within upload_timeout_s";
  double due = (double)watcher->limits.upload_min_rate * (double)(elapsed - grace_ns) / (double)NS_PER_S;
  if (elapsed > grace_ns && (double)atomic_load(&peer->received) < due) return "the body came below upload_min_rate";
  return NULL;
}

// A client that has finished sending has left, or waits for its answer; nothing tells which. So it is sent what any client of
// HTTP/1.1 overlooks, and the host of one that has left answers that with a reset, which on_event sees.
static void probe(struct peer *peer) {
  static const char interim[] = "HTTP/1.1 100 Continue\r\n\r\n";
  if (peer->tls) atomic_store(&peer->gone, true);  // with TLS no client closes one half only
  if (peer->tls || peer->probed || !peer->takes_interim || !move(peer, PEER_JOB, PEER_PROBED)) return;
  (void)send(peer->fd, interim, sizeof interim - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
  peer->probed = true;
  (void)move(peer, PEER_PROBED, PEER_JOB);
}

// With the lock held: the descriptor of an open peer stays the connection's own, since its close waits for the lock.
static void check_peer(struct watcher *watcher, struct peer *peer, int64_t now_ns) {
  int phase = atomic_load(&peer->phase);
  const char *fault = phase == PEER_UPLOAD ? upload_fault(watcher, peer, now_ns) : NULL;
  if (fault && move(peer, PEER_UPLOAD, PEER_FAILED)) {
    write_failure(peer, PROBLEM_BODY_STALLED, fault);
    phase = PEER_FAILED;
  }
  // The library reads what is there, then the end of file that it has missed or that this makes. Not once the request is
  // whole: the library would take the end of file for the end of a client that waits for its answer.
  bool over = (phase == PEER_FAILED && !(peer->refused && now_ns - atomic_load(&peer->since_ns) < refused_ns)) ||
              (peer->half_closed && (phase == PEER_IDLE || phase == PEER_UPLOAD));
  // The library closes a silent connection by itself, but not one that sends a byte now and then.
  if (phase == PEER_IDLE && now_ns - atomic_load(&peer->since_ns) > watcher->limits.idle_timeout_ns) over = true;
  if (over) (void)shutdown(peer->fd, SHUT_RD);
  if (peer->half_closed && phase == PEER_JOB) probe(peer);
  // Nor one whose client takes a little of its answer now and then, which all the while holds the answer's memory.
  if (phase == PEER_REPLY && now_ns - atomic_load(&peer->since_ns) > watcher->limits.send_timeout_ns)
    peer->cut_off = shutdown(peer->fd, SHUT_RDWR) == 0;
}

static void end_lingering(struct watcher *watcher, int index) {
  close(watcher->lingering[index].fd);
  watcher->lingering[index] = watcher->lingering[--watcher->lingering_count];
}

// Reads and forgets. True once there is nothing more to wait for.
static bool drain_socket(struct lingering *lingering) {
  static char scrap[65536];           // only the watcher's thread comes here
  int64_t share = linger_bytes / 64;  // of one sweep: others wait for the lock
  ssize_t got;
  do {
    got = recv(lingering->fd, scrap, sizeof scrap, MSG_DONTWAIT);
    if (got > 0) lingering->bytes_left -= got, share -= got;
  } while (got > 0 && share > 0 && lingering->bytes_left > 0);
  if (got < 0) return errno != EAGAIN && errno != EINTR;
  return lingering->bytes_left <= 0 || (got == 0 && !lingering->shut);
}

static void on_event(struct watcher *watcher, const struct epoll_event *event) {
  int fd = (int)(event->data.u64 & UINT32_MAX);
  uint32_t generation = (uint32_t)(event->data.u64 >> 32);
  struct peer *peer = &watcher->peers[fd];
  if (!peer->open || peer->generation != generation) return;
  if (event->events & EPOLLRDHUP) peer->half_closed = true;
  // A half-closed client may well wait for its answer; one that has reset the connection cannot.
  if (event->events & (EPOLLERR | EPOLLHUP)) atomic_store(&peer->gone, true);
}

static void sweep(struct watcher *watcher, int64_t now_ns) {
  for (size_t fd = 0; fd < watcher->peers_used; fd++)
    if (watcher->peers[fd].open) check_peer(watcher, &watcher->peers[fd], now_ns);
  for (int i = watcher->lingering_count - 1; i >= 0; i--)
    if (drain_socket(&watcher->lingering[i]) || now_ns > watcher->lingering[i].until_ns) end_lingering(watcher, i);
}

static void *watcher_main(void *argument) {
  struct watcher *watcher = argument;
  struct epoll_event events[EVENTS];
  int64_t last_ns = clock_ns();
  for (;;) {
    int count = epoll_wait(watcher->epoll_fd, events, EVENTS, TICK_MS);
    int64_t now_ns = clock_ns();
    bool tick = now_ns - last_ns >= TICK_MS * NS_PER_MS;
    pthread_mutex_lock(&watcher->lock);
    for (int i = 0; i < count; i++) {
      if (events[i].data.u64 == stop_event) {
        pthread_mutex_unlock(&watcher->lock);
        return NULL;
      }
      on_event(watcher, &events[i]);
    }
    if (tick) sweep(watcher, now_ns);
    pthread_mutex_unlock(&watcher->lock);
    if (!tick) continue;
    watcher->tick(watcher->tick_cls, now_ns);
    last_ns = now_ns;
  }
}

static bool fail(struct watcher *watcher, char *error, size_t error_size, const char *what) {
  snprintf(error, error_size, "watcher: %s: %s", what, strerror(errno));
  if (watcher->epoll_fd >= 0) close(watcher->epoll_fd);
  if (watcher->stop_fd >= 0) close(watcher->stop_fd);
  free(watcher->peers);
  return false;
}

bool watcher_start(struct watcher *watcher, const struct watcher_limits *limits, struct clients *clients,
                   void (*tick)(void *cls, int64_t now_ns), void *tick_cls, char *error, size_t error_size) {
  enum { MOST_PEERS = 1 << 20 };
  *watcher = (struct watcher){
      .limits = *limits, .clients = clients, .tick = tick, .tick_cls = tick_cls, .epoll_fd = -1, .stop_fd = -1};
  struct rlimit files;
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return fail(watcher, error, error_size, "getrlimit");
  watcher->peer_count = files.rlim_cur < MOST_PEERS ? (size_t)files.rlim_cur : MOST_PEERS;
  watcher->peers = calloc(watcher->peer_count, sizeof *watcher->peers);  // touched only as far as descriptors reach
  watcher->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  watcher->stop_fd = eventfd(0, EFD_CLOEXEC);
  if (!watcher->peers || watcher->epoll_fd < 0 || watcher->stop_fd < 0)
    return fail(watcher, error, error_size, "start");
  struct epoll_event event = {.events = EPOLLIN, .data.u64 = stop_event};
  if (epoll_ctl(watcher->epoll_fd, EPOLL_CTL_ADD, watcher->stop_fd, &event) != 0)
    return fail(watcher, error, error_size, "epoll_ctl");
  pthread_mutex_init(&watcher->lock, NULL);
  errno = pthread_create(&watcher->thread, NULL, watcher_main, watcher);
  if (errno) return fail(watcher, error, error_size, "pthread_create");
  return true;
}

void watcher_halt(struct watcher *watcher) {
  ssize_t written = write(watcher->stop_fd, &(uint64_t){1}, sizeof(uint64_t));
  (void)written;  // an eventfd takes one
  pthread_join(watcher->thread, NULL);
}

void watcher_destroy(struct watcher *watcher) {
  while (watcher->lingering_count) end_lingering(watcher, 0);
  close(watcher->epoll_fd);
  close(watcher->stop_fd);
  pthread_mutex_destroy(&watcher->lock);
  free(watcher->peers);
}
