// Accepts connections at all listeners, and hands them to server/http.
//
// One thread accepts for all I/O threads. If the I/O threads accepted themselves, each new connection would wake all of
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

// While ACCEPTOR_MOST_COMING connections of a group have no I/O thread yet, its clients wait in the listener's socket,
// where they hold no descriptor. If none of these connections gets an I/O thread for ACCEPTOR_PATIENCE_MS, all of them
// count as lost: the library does not report a connection for which an I/O thread had no memory.
enum { ACCEPTOR_MOST_COMING = 16, ACCEPTOR_PATIENCE_MS = 100 };

// Gets a connection of listeners->at[index], on the acceptor's thread. Owns `fd` from then on. False: no I/O thread
// will get the connection.
typedef bool acceptor_take(void *cls, int index, int fd, const struct sockaddr *address, socklen_t length);

struct acceptor {
  pthread_t thread;
  int epoll_fd, stop_fd;
  const struct listeners *listeners;
  acceptor_take *take;
  void *cls;
  int held_ms[LISTENERS_MAX * LISTENER_LISTS];  // how long connections have waited at each listener, untaken
};

// Starts the thread. The listeners have their groups. False with a reason; nothing is left open then.
VX_WARN_UNUSED bool acceptor_start(struct acceptor *acceptor, const struct listeners *listeners, acceptor_take *take,
                                   void *cls, struct error *error);
// Ends the thread. Later connections wait in the listener's socket.
void acceptor_stop(struct acceptor *acceptor);

#endif
