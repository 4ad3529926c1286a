// Accepts connections at all listeners, and hands them to server/http.
//
// One thread accepts for all I/O threads. If the I/O threads accepted themselves, each new connection would wake all of
// them, and a few threads would get most connections.
//
// The daemon starts and stops the thread.
#ifndef VOXELD_ACCEPTOR_H
#define VOXELD_ACCEPTOR_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "kernels/kernels.h"
#include "server/net/listener.h"

// While ACCEPTOR_MOST_COMING connections of a group have no I/O thread yet, further clients wait in the listener's
// socket, where they hold no descriptor. If this lasts for ACCEPTOR_PATIENCE_MS, the connections without an I/O thread
// count as lost: the library does not report a connection for which an I/O thread had no memory.
enum { ACCEPTOR_MOST_COMING = 16, ACCEPTOR_PATIENCE_MS = 100 };

// Gets a connection of listeners->at[index], and owns `fd` from then on. On the acceptor's thread. False: no I/O thread
// will get the connection.
typedef bool acceptor_take(void *cls, int index, int fd, const struct sockaddr *address, socklen_t length);

struct acceptor {
  pthread_t thread;
  int epoll_fd, stop_fd;
  const struct listeners *listeners;
  acceptor_take *take;
  void *cls;
  int held_ms[LISTENERS_MAX * LISTENER_LISTS];  // how long connections have waited at each listener
};

// Each listener must have its group. False with a reason; nothing is left open then.
VX_WARN_UNUSED bool acceptor_start(struct acceptor *acceptor, const struct listeners *listeners, acceptor_take *take,
                                   void *cls, struct error *error);
// Later connections wait in the listener's socket.
void acceptor_stop(struct acceptor *acceptor);

#endif
