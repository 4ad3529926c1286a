// See acceptor.h.
#include "server/net/acceptor.h"

#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "server/base/log.h"

enum {
  AT_A_TIME = 16,  // connections to accept at one listener before the next listener's turn
  LACK_MS = 50,    // the pause when no connection can be accepted
};
static const uint32_t stop_event = UINT32_MAX;  // the key of stop_fd's events

static bool lacks_resources(int reason) {
  return reason == EMFILE || reason == ENFILE || reason == ENOBUFS || reason == ENOMEM;
}

static void pause_ms(const struct acceptor *acceptor, int ms) {
  struct pollfd stop = {.fd = acceptor->stop_fd, .events = POLLIN};
  (void)poll(&stop, 1, ms);
}

// Returns 0, or the errno of the failure.
static int accept_one(const struct acceptor *acceptor, int index) {
  const struct listener *listener = &acceptor->listeners->at[index];
  struct sockaddr_storage address;
  struct sockaddr *any = (struct sockaddr *)&address;
  socklen_t length = sizeof address;
  int fd = accept4(listener->fd, any, &length, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd < 0) return errno;
  atomic_fetch_add(&listener->group->coming, 1);
  if (!acceptor->take(acceptor->cls, index, fd, any, length)) listener_group_came(listener->group);
  return 0;
}

static bool may_accept(const struct acceptor *acceptor, int index) {
  return atomic_load(&acceptor->listeners->at[index].group->coming) < ACCEPTOR_MOST_COMING;
}

// Continues after a connection that failed, since good ones may wait behind it.
static void accept_some(const struct acceptor *acceptor, int index) {
  int taken = 0, reason = 0;
  do {
    reason = accept_one(acceptor, index);
  } while (++taken < AT_A_TIME && reason != EAGAIN && !lacks_resources(reason) && may_accept(acceptor, index));
  if (!lacks_resources(reason)) return;
  log_event(LOG_WARNING, "no connection can be accepted", "reason", strerror(reason));
  pause_ms(acceptor, LACK_MS);
}

// False if a connection waits and may not be taken yet.
static bool serve_listener(struct acceptor *acceptor, int index) {
  int *held_ms = &acceptor->held_ms[index];
  if (!may_accept(acceptor, index)) {
    if (++*held_ms < ACCEPTOR_PATIENCE_MS) return false;
    atomic_store(&acceptor->listeners->at[index].group->coming, 0);
  }
  *held_ms = 0;
  accept_some(acceptor, index);
  return true;
}

static void *acceptor_main(void *argument) {
  struct acceptor *acceptor = argument;
  struct epoll_event events[LISTENERS_MAX * LISTENER_LISTS + 1];
  for (;;) {
    int count = epoll_wait(acceptor->epoll_fd, events, sizeof events / sizeof *events, -1);
    bool all = true;
    for (int i = 0; i < count; i++) {
      if (events[i].data.u32 == stop_event) return NULL;
      all &= serve_listener(acceptor, (int)events[i].data.u32);
    }
    if (!all) pause_ms(acceptor, 1);
  }
}

static bool watch(const struct acceptor *acceptor, int fd, uint32_t key) {
  struct epoll_event event = {.events = EPOLLIN, .data.u32 = key};
  return epoll_ctl(acceptor->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

static bool watch_all(const struct acceptor *acceptor) {
  for (int i = 0; i < acceptor->listeners->count; i++)
    if (!watch(acceptor, acceptor->listeners->at[i].fd, (uint32_t)i)) return false;
  return watch(acceptor, acceptor->stop_fd, stop_event);
}

static void close_both(const struct acceptor *acceptor) {
  if (acceptor->epoll_fd >= 0) close(acceptor->epoll_fd);
  if (acceptor->stop_fd >= 0) close(acceptor->stop_fd);
}

bool acceptor_start(struct acceptor *acceptor, const struct listeners *listeners, acceptor_take *take, void *cls,
                    struct error *error) {
  *acceptor = (struct acceptor){.epoll_fd = epoll_create1(EPOLL_CLOEXEC),
                                .stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
                                .listeners = listeners,
                                .take = take,
                                .cls = cls};
  bool good = acceptor->epoll_fd >= 0 && acceptor->stop_fd >= 0 && watch_all(acceptor);
  int reason = good ? pthread_create(&acceptor->thread, NULL, acceptor_main, acceptor) : errno;
  if (!reason) return true;
  error_set(error, "acceptor: %s", strerror(reason));
  close_both(acceptor);
  return false;
}

void acceptor_stop(struct acceptor *acceptor) {
  const uint64_t one = 1;
  (void)!write(acceptor->stop_fd, &one, sizeof one);  // fails only if the counter is full, which wakes the thread too
  pthread_join(acceptor->thread, NULL);
  close_both(acceptor);
}
