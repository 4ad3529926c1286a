// Accepts connections at all listeners and hands them on.
//
// One thread accepts for all IO threads. If these did so themselves, each new connection would wake all of them, and
// those that are awake first would get most connections: of 64, one of 16 threads got 28, and eleven got none or one.
//
// Main starts and stops it. The listeners stay main's.
#ifndef VOXELD_ACCEPTOR_H
#define VOXELD_ACCEPTOR_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#include "kernels/kernels.h"
#include "server/net/listener.h"

// Who gets the connections at listeners->at[index]. Called on the acceptor's thread.
struct acceptor_taker {
  // False while earlier ones are not served yet: then clients wait in the listener's socket, as they hold no descriptor
  // there. One is taken all the same every ACCEPTOR_PATIENCE_MS.
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
  int held_ms[LISTENERS_MAX * LISTENER_LISTS];  // how long nothing was taken at each, though somebody waits
};

// Starts the thread. False with a reason; nothing is left open then.
VX_WARN_UNUSED bool acceptor_start(struct acceptor *acceptor, const struct listeners *listeners,
                                   const struct acceptor_taker *taker, struct error *error);
// Ends the thread: nothing is taken any more. Who connects from now on waits in the listener's socket.
void acceptor_stop(struct acceptor *acceptor);

#endif
