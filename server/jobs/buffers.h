// Memory for bodies and answers: tiers of sizes (powers of two from 64 KiB), each reused last in, first out, all under
// one budget, of which each client has a share.
//
// Taking a buffer never blocks: it succeeds, or the request is refused. The memory is that of the device which does
// most of the work then (pinned where it wants that), so that a copy to a device needs no second copy on the host. Any
// thread; a taken buffer belongs to its taker.
#ifndef VOXELD_BUFFERS_H
#define VOXELD_BUFFERS_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/kernels.h"
#include "server/clients/clients.h"
#include "server/config/buffer_size.h"
#include "server/jobs/devices.h"

struct buffers;

struct buffer {
  struct buffers *pool;
  struct buffer *next;          // in its tier's free list
  struct client *client;        // who holds it
  enum share share;             // what it counts as
  const struct device *device;  // whose memory it is
  int tier;
  size_t capacity;
  char *data;  // 4096-byte aligned
};

// Why there is no buffer: what is short, SHARES if the system has no memory.
struct shortage {
  enum grant grant;
  enum share share;
};

struct buffers {
  pthread_mutex_t lock;
  const struct devices *devices;
  struct clients *clients;
  struct buffer *free[BUFFER_TIERS];
  size_t budget;
  size_t allocated;  // in use or free; never above the budget
  size_t in_use;
};

void buffers_init(struct buffers *buffers, const struct devices *devices, size_t budget, struct clients *clients);
void buffers_destroy(struct buffers *buffers);  // all buffers must have been given back

// A buffer of at least `size` bytes for the client, who holds it as SHARE_BYTES, and as SHARE_SAMPLING_BYTES too where
// that is asked. `mine` of what it holds is the same request's. NULL with OVER_CLIENT_SHARE, or with OVER_SERVER_LIMIT
// where the budget or the memory is spent.
VX_WARN_UNUSED struct buffer *buffer_take(struct buffers *buffers, struct client *client, enum share share, size_t size,
                                          size_t mine, struct shortage *shortage);
void buffer_give(struct buffer *buffer);

// Memory that is not of the pool but counts as if it were: the scratch of jobs that run. It is nobody's share, since no
// client gets more than some workers.
VX_WARN_UNUSED bool buffers_charge(struct buffers *buffers, size_t bytes);
void buffers_discharge(struct buffers *buffers, size_t bytes);

struct buffers_use {
  size_t budget, allocated, in_use;
};
struct buffers_use buffers_use(struct buffers *buffers);

#endif
