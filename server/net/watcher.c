// See watcher.h.
#include "server/net/watcher.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/base/base.h"

enum { EVENTS = 64 };
static const int64_t grace_ns = 5 * NS_PER_S;    // from an upload's beginning until the minimum rate holds
static const int64_t refused_ns = 1 * NS_PER_S;  // how long a refused connection waits for its request
static const uint64_t stop_event = UINT64_MAX;   // no descriptor's event has this key

// NULL: the upload may go on.
static const char *upload_fault(const struct watcher *watcher, struct peer *peer, int phase, int64_t now_ns,
                                enum error_kind *kind) {
  int64_t elapsed = now_ns - atomic_load(&peer->since_ns);
  *kind = ERROR_MEMORY_FULL;
  if (phase == PEER_PREEMPTED) return PREEMPTED;
  *kind = ERROR_BODY_STALLED;
  if (elapsed > watcher->options->upload_timeout_s * NS_PER_S)
    return "the body was not complete within upload_timeout_s";
  double due = (double)watcher->options->upload_min_rate * (double)(elapsed - grace_ns) / (double)NS_PER_S;
  if (elapsed > grace_ns && (double)atomic_load(&peer->upload.bytes) < due)
    return "the body came more slowly than upload_min_rate";
  return NULL;
}

// Under the lock, the descriptor of an open peer belongs to its connection: connection_closed waits for the lock.
static void check_peer(struct watcher *watcher, struct peer *peer, int64_t now_ns) HOLDS(watcher->lock) {
  int phase = atomic_load(&peer->phase);
  enum error_kind kind;
  peer_note_rate(peer, now_ns);
  bool comes = phase == PEER_UPLOAD || phase == PEER_PREEMPTED;
  const char *fault = comes ? upload_fault(watcher, peer, phase, now_ns, &kind) : NULL;
  if (fault && peer_move(peer, phase, PEER_FAILED)) {
    peer_write_failure(peer, kind, fault);
    if (kind == ERROR_MEMORY_FULL) peer->cut = PEER_END_PREEMPTED;
    phase = PEER_FAILED;
  }
  // When the reading side is shut, the library reads what is there, then an end of file, and closes. It would drop the
  // answer to a request that has come whole, so the reading side then stays open.
  bool over = (phase == PEER_FAILED && !(peer->refused && now_ns - atomic_load(&peer->since_ns) < refused_ns)) ||
              (atomic_load(&peer->half_closed) && (phase == PEER_IDLE || phase == PEER_UPLOAD));
  // The library closes a silent connection, but not one that sends a byte now and then.
  if (phase == PEER_IDLE && now_ns - atomic_load(&peer->since_ns) > watcher->options->idle_timeout_s * NS_PER_S)
    over = true;
  if (over) (void)shutdown(peer->fd, SHUT_RD);
  if (atomic_load(&peer->half_closed)) peer_probe(peer);
  // The library also keeps open a connection whose client takes a little of its answer now and then.
  if (phase == PEER_REPLY && now_ns - atomic_load(&peer->since_ns) > watcher->options->send_timeout_s * NS_PER_S &&
      shutdown(peer->fd, SHUT_RDWR) == 0 && !peer->cut)
    peer->cut = PEER_END_SEND_TIMEOUT;
}

static void end_lingering(struct watcher *watcher, int index) {
  const struct lingering *lingering = &watcher->lingering[index];
  close(lingering->fd);
  share_release(lingering->group->clients, lingering->client, SHARE_LINGERING, 1);
  watcher->lingering[index] = watcher->lingering[--watcher->lingering_count];
}

// Discards what has arrived. True: there is nothing more to wait for.
static bool drain_socket(struct lingering *lingering) {
  static char scrap[65536];           // of the watcher's thread
  int64_t share = LINGER_BYTES / 64;  // maximum bytes of one call, since other threads wait for the lock
  ssize_t got;
  do {
    got = recv(lingering->fd, scrap, sizeof scrap, MSG_DONTWAIT);
    if (got > 0) lingering->bytes_left -= got, share -= got;
  } while (got > 0 && share > 0 && lingering->bytes_left > 0);
  if (got < 0) return errno != EAGAIN && errno != EINTR;
  return lingering->bytes_left <= 0 || (got == 0 && !lingering->shut);
}

static void on_event(struct watcher *watcher, const struct epoll_event *event) HOLDS(watcher->lock) {
  int fd = (int)(event->data.u64 & UINT32_MAX);
  uint32_t generation = (uint32_t)(event->data.u64 >> 32);
  struct peer *peer = &watcher->peers[fd];
  if (!peer->open || peer->generation != generation) return;
  if (event->events & EPOLLRDHUP) atomic_store(&peer->half_closed, true);
  // A client that has half closed the connection may wait for its answer; one that has reset it cannot.
  if (event->events & (EPOLLERR | EPOLLHUP)) atomic_store(&peer->gone, true);
}

static void sweep(struct watcher *watcher, int64_t now_ns) HOLDS(watcher->lock) {
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
    int count = epoll_wait(watcher->epoll_fd, events, EVENTS, WATCHER_TICK_MS);
    int64_t now_ns = clock_ns();
    bool tick = now_ns - last_ns >= WATCHER_TICK_MS * NS_PER_MS;
    lock_acquire(&watcher->lock);
    for (int i = 0; i < count; i++) {
      if (events[i].data.u64 == stop_event) {
        lock_release(&watcher->lock);
        return NULL;
      }
      on_event(watcher, &events[i]);
    }
    if (tick) sweep(watcher, now_ns);
    lock_release(&watcher->lock);
    if (!tick) continue;
    watcher->tick(watcher->tick_cls, now_ns);
    last_ns = now_ns;
  }
}

static bool fail(struct watcher *watcher, struct error *error, const char *what) {
  error_set(error, "watcher: %s: %s", what, strerror(errno));
  if (watcher->epoll_fd >= 0) close(watcher->epoll_fd);
  if (watcher->stop_fd >= 0) close(watcher->stop_fd);
  free(watcher->peers);
  return false;
}

bool watcher_start(struct watcher *watcher, const struct options *options, struct clients *clients,
                   struct clients *page_clients, void (*tick)(void *cls, int64_t now_ns), void *tick_cls,
                   struct error *error) {
  enum { MOST_PEERS = 1 << 20 };
  *watcher = (struct watcher){.options = options,
                              .group = {.clients = clients},
                              .page_group = {.pages = true, .clients = page_clients},
                              .tick = tick,
                              .tick_cls = tick_cls,
                              .epoll_fd = -1,
                              .stop_fd = -1};
  struct rlimit files;
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return fail(watcher, error, "getrlimit");
  watcher->peer_count = files.rlim_cur < MOST_PEERS ? (size_t)files.rlim_cur : MOST_PEERS;
  watcher->peers = calloc(watcher->peer_count, sizeof *watcher->peers);  // unused slots take no memory
  watcher->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  watcher->stop_fd = eventfd(0, EFD_CLOEXEC);
  if (!watcher->peers || watcher->epoll_fd < 0 || watcher->stop_fd < 0) return fail(watcher, error, "start");
  struct epoll_event event = {.events = EPOLLIN, .data.u64 = stop_event};
  if (epoll_ctl(watcher->epoll_fd, EPOLL_CTL_ADD, watcher->stop_fd, &event) != 0)
    return fail(watcher, error, "epoll_ctl");
  lock_init(&watcher->lock);
  errno = pthread_create(&watcher->thread, NULL, watcher_main, watcher);
  if (errno) return fail(watcher, error, "pthread_create");
  return true;
}

void watcher_stop(struct watcher *watcher) {
  ssize_t written = write(watcher->stop_fd, &(uint64_t){1}, sizeof(uint64_t));
  (void)written;  // this cannot fail: the counter is 0
  pthread_join(watcher->thread, NULL);
}

void watcher_end(struct watcher *watcher) {
  while (watcher->lingering_count) end_lingering(watcher, 0);
  close(watcher->epoll_fd);
  close(watcher->stop_fd);
  lock_end(&watcher->lock);
  free(watcher->peers);
}
