// Memory of one request, for its lists and the metadata of its answer. A pool of zeros is empty. A pool belongs to one
// thread at a time.
#ifndef VOXELD_POOL_H
#define VOXELD_POOL_H

#include <stdbool.h>
#include <stddef.h>

#include "api/base/problem.h"

enum { POOL_KEPT = 60 << 10 };

struct pool {
  struct pool_block *blocks;
  bool failed;  // there was no memory for a part
};

// A part of this many bytes, aligned for any type. It is not cleared. NULL: there is no memory.
VX_WARN_UNUSED void *pool_take(struct pool *pool, size_t bytes);
// Gives back all parts. Keeps blocks of up to POOL_KEPT bytes in all, so that a later request of the same kind
// allocates nothing.
void pool_reset(struct pool *pool);
void pool_release(struct pool *pool);
// Refuses a request for which a pool had no memory. Returns false.
bool pool_refuse(struct error *error);

#endif
