// The workers: threads that take jobs from the queue, one lane of the backend each.
#ifndef VOXELD_WORKERS_H
#define VOXELD_WORKERS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "kernels/kernels.h"

struct server;

struct worker {
  pthread_t thread;
  struct server *server;
  struct vx_lane *lane;
};

struct workers {
  int64_t count;
  struct worker *worker;  // [count]
  atomic_llong running;   // jobs on a lane now
};

// Opens the lanes and starts the threads: options.workers of them, or one a processor. False with a reason.
VX_WARN_UNUSED bool workers_start(struct server *server, char *error, size_t error_size);
// Waits for the threads after the queue was closed, and closes the lanes.
void workers_join(struct server *server);

#endif
