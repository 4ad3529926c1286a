// Memory for bodies and answers: tiers of sizes (powers of two from 64 KiB), each reused last in, first out, all under one budget.
//
// Taking a buffer never blocks: it succeeds, or the request is refused. The memory is the backend's (pinned where it wants
// that), so that a copy to a device needs no second copy on the host. Any thread; a taken buffer belongs to its taker.
#ifndef VOXELD_BUFFERS_H
#define VOXELD_BUFFERS_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/kernels.h"

enum { BUFFER_SMALLEST = 16, BUFFER_TIERS = 22 };  // tiers of 2^16 .. 2^37 bytes

struct buffers;

struct buffer {
  struct buffers *pool;
  struct buffer *next;  // in its tier's free list
  int tier;
  size_t capacity;
  char *data;  // 4096-byte aligned
};

struct buffers {
  pthread_mutex_t lock;
  const struct vx_backend *backend;
  struct vx_device *device;
  struct buffer *free[BUFFER_TIERS];
  size_t budget;
  size_t allocated;  // in use or free; never above the budget
  size_t in_use;
};

void buffers_init(struct buffers *buffers, const struct vx_backend *backend, struct vx_device *device, size_t budget);
void buffers_destroy(struct buffers *buffers);  // all buffers must have been given back

// What a buffer of `size` bytes takes from the budget; 0 where there is none so large.
size_t buffer_capacity(size_t size);

// A buffer of at least `size` bytes, or NULL where the budget or the memory is spent.
VX_WARN_UNUSED struct buffer *buffer_take(struct buffers *buffers, size_t size);
void buffer_give(struct buffer *buffer);

struct buffers_use {
  size_t budget, allocated, in_use;
};
struct buffers_use buffers_use(struct buffers *buffers);

#endif
