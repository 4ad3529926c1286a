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
static const int64_t linger_ns = 5 * NS_PER_S;       // the longest lingering close
static const int64_t shut_linger_ns = 1 * NS_PER_S;  // and that of a connection whose reading side was shut
static const int64_t linger_bytes = 64 << 20;        // and the most it reads
static const uint64_t stop_event = UINT64_MAX;       // no descriptor's event has this key

static uint64_t event_key(uint32_t generation, int fd) { return (uint64_t)generation << 32 | (uint32_t)fd; }

// ---- peers ------------------------------------------------------------------------------------------------------------

struct peer *watcher_opened(struct watcher *watcher, int fd, const char *address, struct tls_session *tls) {
  if (fd < 0 || (size_t)fd >= watcher->peer_count) return NULL;
  struct peer *peer = &watcher->peers[fd];
  pthread_mutex_lock(&watcher->lock);
  *peer = (struct peer){.fd = fd, .generation = peer->generation + 1, .open = true, .since_ns = clock_ns(), .tls = tls};
  snprintf(peer->address, sizeof peer->address, "%s", address);
  if ((size_t)fd >= watcher->peers_used) watcher->peers_used = (size_t)fd + 1;
  struct epoll_event event = {.events = EPOLLRDHUP | EPOLLET, .data.u64 = event_key(peer->generation, fd)};
  bool watched = epoll_ctl(watcher->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
  peer->open = watched;
  pthread_mutex_unlock(&watcher->lock);
  if (!watched) return NULL;
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

void watcher_closed(struct watcher *watcher, struct peer *peer) {
  pthread_mutex_lock(&watcher->lock);
  (void)epoll_ctl(watcher->epoll_fd, EPOLL_CTL_DEL, peer->fd, NULL);
  if (peer->linger) start_lingering(watcher, peer);
  peer->open = false;
  pthread_mutex_unlock(&watcher->lock);
  atomic_fetch_sub(&watcher->connections, 1);
}

void peer_upload_begin(struct peer *peer, const char *request_id, int64_t now_ns) {
  snprintf(peer->request_id, sizeof peer->request_id, "%s", request_id);
  atomic_store(&peer->since_ns, now_ns);
  atomic_store(&peer->received, 0);
  atomic_store(&peer->phase, PEER_UPLOAD);  // last: from here on the watcher reads the others
}

void peer_upload_progress(struct peer *peer, size_t bytes) { atomic_fetch_add(&peer->received, (long long)bytes); }

static bool move(struct peer *peer, int from, int to) {
  return atomic_compare_exchange_strong(&peer->phase, &from, to);
}

bool peer_upload_end(struct peer *peer) { return move(peer, PEER_UPLOAD, PEER_JOB); }

void peer_reply_begin(struct peer *peer, int64_t now_ns) {
  atomic_store(&peer->since_ns, now_ns);
  (void)move(peer, PEER_JOB, PEER_REPLY);
}

void peer_reply_end(struct peer *peer, int64_t now_ns) {
  atomic_store(&peer->since_ns, now_ns);
  if (!move(peer, PEER_REPLY, PEER_IDLE)) (void)move(peer, PEER_JOB, PEER_IDLE);
}

// With the lock held. The socket's send buffer is empty in an upload, so the short text goes out whole or not at all.
static void write_failure(struct peer *peer, enum problem_kind kind, const char *detail) {
  struct problem problem;
  char body[1024], message[1536];
  (void)problem_set(&problem, kind, NULL, "%s", detail);
  peer->failure = kind;
  if (peer->tls) return;  // its records are the IO thread's to write, and the library lets it write none now
  peer->linger = true;
  struct text text = text_over(body, sizeof body);
  problem_render(&problem, peer->request_id, &text);
  unsigned status = (unsigned)problem_info(kind)->status;
  int length = snprintf(message, sizeof message,
                        "HTTP/1.1 %u %s\r\nContent-Type: " PROBLEM_MEDIA_TYPE "\r\nX-Request-Id: %s\r\n"
                        "Content-Length: %zu\r\nConnection: close\r\n\r\n%s",
                        status, MHD_get_reason_phrase_for(status), peer->request_id, text.length, body);
  (void)send(peer->fd, message, (size_t)length, MSG_DONTWAIT | MSG_NOSIGNAL);
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
  bool over = phase == PEER_FAILED || (peer->half_closed && (phase == PEER_IDLE || phase == PEER_UPLOAD));
  // The library closes a silent connection by itself, but not one that sends a byte now and then.
  if (phase == PEER_IDLE && now_ns - atomic_load(&peer->since_ns) > watcher->limits.idle_timeout_ns) over = true;
  if (over) (void)shutdown(peer->fd, SHUT_RD);
  // Nor one whose client takes a little of its answer now and then, which all the while holds the answer's memory.
  if (phase == PEER_REPLY && now_ns - atomic_load(&peer->since_ns) > watcher->limits.send_timeout_ns)
    (void)shutdown(peer->fd, SHUT_RDWR);
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

bool watcher_start(struct watcher *watcher, const struct watcher_limits *limits,
                   void (*tick)(void *cls, int64_t now_ns), void *tick_cls, char *error, size_t error_size) {
  enum { MOST_PEERS = 1 << 20 };
  *watcher = (struct watcher){.limits = *limits, .tick = tick, .tick_cls = tick_cls, .epoll_fd = -1, .stop_fd = -1};
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
