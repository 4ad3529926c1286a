// The pool of memory for bodies and answers. The size of a buffer is a power of two from 64 KiB on; each size is a
// tier, whose buffers are reused last in, first out. All buffers are under one budget, of which each client has a
// share.
//
// Taking a buffer never blocks: it succeeds, or the request is refused. The device that does most of the work at the
// time (devices_main) allocates the memory, pinned if that device wants it, so that a copy to the device needs no
// second copy on the host. What the CPU allocated while no GPU worked is freed, once it is given back and one works
// again. Any thread; a taken buffer belongs to its taker.
#ifndef VOXELD_BUFFERS_H
#define VOXELD_BUFFERS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/kernels.h"
#include "server/base/lock.h"
#include "server/clients/clients.h"
#include "server/config/buffer_size.h"
#include "server/jobs/devices.h"

struct buffers;

struct buffer {
  struct buffers *pool;
  struct buffer *next;          // in its tier's free list
  struct client *client;        // who holds it
  enum share share;             // what it counts as
  const struct device *device;  // that allocated `data`, and frees it
  int tier;
  size_t capacity;
  char *data;  // 4096-byte aligned
};

// Why a request got no memory, or no queue slot.
struct shortage {
  enum grant grant;
  enum share share;  // that is short; SHARES: nothing that others could give up
  int64_t amount;    // bytes or slots that were asked for
};

struct buffers {
  struct lock lock;
  const struct devices *devices;
  struct clients *clients;
  struct buffer *free[BUFFER_TIERS];
  size_t budget;
  atomic_size_t allocated;  // bytes in use or free; never above the budget. Only grows with the lock held
  atomic_size_t in_use;     // bytes; likewise
};

void buffers_init(struct buffers *buffers, const struct devices *devices, size_t budget, struct clients *clients);
void buffers_destroy(struct buffers *buffers);  // all buffers must have been given back

// A buffer of at least `size` bytes. It counts to the client's SHARE_BYTES, and to its SHARE_LONG_BYTES too if
// `share` is that one. `mine`: bytes that the same request holds already; a request is not refused for its own sake.
// NULL with the reason in `*shortage`.
VX_WARN_UNUSED struct buffer *buffer_acquire(struct buffers *buffers, struct client *client, enum share share,
                                             size_t size, size_t mine, struct shortage *shortage);
// Whether the client's shares would allow it; nothing is taken.
VX_WARN_UNUSED bool buffer_may_acquire(struct buffers *buffers, struct client *client, enum share share, size_t size,
                                       size_t mine, struct shortage *shortage);
// Lets a buffer count to another share beside SHARE_BYTES. False with the reason in `*shortage`.
VX_WARN_UNUSED bool buffer_move(struct buffer *buffer, enum share share, struct shortage *shortage);
// Returns the buffer to its pool, and its bytes to the client's shares.
void buffer_release(struct buffer *buffer);

// Memory outside the pool that counts to the pool's budget: the scratch of running jobs. It counts to no client's
// share, since the queue limits how many jobs of a client run. False if the budget has no room for it.
VX_WARN_UNUSED bool budget_acquire(struct buffers *buffers, size_t bytes);
void budget_release(struct buffers *buffers, size_t bytes);
// Likewise, but it counts to the client's SHARE_BYTES; `mine` and `*shortage` as in buffer_acquire.
VX_WARN_UNUSED bool budget_acquire_for(struct buffers *buffers, struct client *client, size_t bytes, size_t mine,
                                       struct shortage *shortage);
void budget_release_for(struct buffers *buffers, struct client *client, size_t bytes);

struct buffers_use {
  size_t budget, allocated, in_use;
};
struct buffers_use buffers_use(const struct buffers *buffers);

#endif
