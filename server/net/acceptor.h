// Accepts connections at all listeners, and hands them to server/http.
//
// One thread accepts for all IO threads. If the IO threads accepted themselves, each new connection would wake all of
// them, and the threads that wake first would get most: when measured, one of 16 threads got 28 of 64 connections, and
// eleven got none or one.
//
// Main starts and stops the thread, and owns the listeners.
#ifndef VOXELD_ACCEPTOR_H
#define VOXELD_ACCEPTOR_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "kernels/kernels.h"
#include "server/net/listener.h"

// The functions that get the connections of listeners->at[index]. Called on the acceptor's thread.
struct acceptor_taker {
  // False while earlier connections are not served yet. Clients then wait in the listener's socket, where they hold no
  // descriptor. Even so, one connection is taken every ACCEPTOR_PATIENCE_MS.
  bool (*may_take)(void *cls, int index);
  void (*take)(void *cls, int index, int fd, const struct sockaddr *address, socklen_t length);  // `fd` is the taker's
  void *cls;
};

enum { ACCEPTOR_PATIENCE_MS = 100 };

struct acceptor {
  pthread_t thread;
  int epoll_fd, stop_fd;
  const struct listeners *listeners;
  struct acceptor_taker taker;
  int held_ms[LISTENERS_MAX * LISTENER_LISTS];  // how long connections have waited at each listener, untaken
};

// Starts the thread. False with a reason; nothing is left open then.
VX_WARN_UNUSED bool acceptor_start(struct acceptor *acceptor, const struct listeners *listeners,
                                   const struct acceptor_taker *taker, struct error *error);
// Ends the thread. Later connections wait in the listener's socket.
void acceptor_stop(struct acceptor *acceptor);

#endif
