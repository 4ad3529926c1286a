// The pool of memory for bodies and answers. Sizes are powers of two from 64 KiB on, each a tier. One budget bounds all
// buffers, and each client has a share of it.
//
// Acquiring succeeds or fails at once. The main device (devices_main) allocates the memory. A buffer that the CPU
// allocated is freed on release if a GPU works again. Any thread; the thread that acquires a buffer owns it.
#ifndef VOXELD_BUFFERS_H
#define VOXELD_BUFFERS_H

#include <stdatomic.h>
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
  struct client *client;        // holds it
  enum share share;             // counts the buffer in addition to SHARE_BYTES
  const struct device *device;  // allocated `data`, and frees it
  int tier;
  size_t capacity;
  char *data;  // 4096-byte aligned
};

// Why a request got no memory, or no queue slot.
struct shortage {
  enum grant grant;
  enum share share;  // that is short; SHARES: no other request can make room
  int64_t amount;    // bytes or slots that were requested
};

struct buffers {
  const struct devices *devices;
  struct clients *clients;  // their lock protects the members below too
  struct buffer *free[BUFFER_TIERS];
  size_t budget;
  atomic_size_t allocated;  // bytes in use or free, within the budget; changes with that lock held
  atomic_size_t in_use;     // bytes; changes with that lock held
};

void buffers_init(struct buffers *buffers, const struct devices *devices, size_t budget, struct clients *clients);
void buffers_end(struct buffers *buffers);  // all buffers must have been released

// A buffer of at least `size` bytes, which counts towards the client's SHARE_BYTES and `share`. `mine`: bytes that the
// same request already holds (share_acquire). NULL with the reason in `*shortage`.
VX_WARN_UNUSED struct buffer *buffer_acquire(struct buffers *buffers, struct client *client, enum share share,
                                             size_t size, size_t mine, struct shortage *shortage);
// Whether the client's shares would allow the buffer. Acquires nothing.
VX_WARN_UNUSED bool buffer_may_acquire(struct buffers *buffers, struct client *client, enum share share, size_t size,
                                       size_t mine, struct shortage *shortage);
// Counts the buffer towards another share in place of buffer->share. False with the reason in `*shortage`.
VX_WARN_UNUSED bool buffer_move(struct buffer *buffer, enum share share, struct shortage *shortage);
// Returns the buffer to its pool, and its bytes to the client's shares.
void buffer_release(struct buffer *buffer);

// Memory outside the pool that counts towards its budget, and towards the client's SHARE_BYTES. `client`: NULL for
// scratch of running jobs, because the queue limits the running jobs of a client. `mine` and `*shortage` are as in
// buffer_acquire. False: no room.
VX_WARN_UNUSED bool budget_acquire(struct buffers *buffers, struct client *client, size_t bytes, size_t mine,
                                   struct shortage *shortage);
void budget_release(struct buffers *buffers, struct client *client, size_t bytes);

#endif
