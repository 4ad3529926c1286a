// See pool.h.
#include "api/base/pool.h"

#include <stdalign.h>
#include <stdlib.h>

enum { ALIGNMENT = alignof(max_align_t), LEAST_BLOCK = 512 };

// The oldest block is the first, so that the same parts fit into the same blocks again.
struct pool_block {
  struct pool_block *next;
  size_t bytes, used;
  alignas(max_align_t) char memory[];
};

void *pool_take(struct pool *pool, size_t bytes) {
  size_t room = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT, least = room < LEAST_BLOCK ? LEAST_BLOCK : room;
  struct pool_block **link = &pool->blocks;
  while (*link && (*link)->bytes - (*link)->used < room) link = &(*link)->next;
  struct pool_block *block = *link ? *link : malloc(sizeof *block + least);
  pool->failed = pool->failed || !block;
  if (!block) return NULL;
  if (!*link) *block = (struct pool_block){NULL, least, 0};
  *link = block;
  block->used += room;
  return block->memory + block->used - room;
}

void pool_reset(struct pool *pool) {
  size_t kept = 0;
  struct pool_block **link = &pool->blocks;
  pool->failed = false;
  while (*link) {
    struct pool_block *block = *link;
    bool fits = kept + block->bytes <= POOL_KEPT;
    if (fits) {
      block->used = 0;
      kept += block->bytes;
      link = &block->next;
    } else {
      *link = block->next;
      free(block);
    }
  }
}

void pool_release(struct pool *pool) {
  while (pool->blocks) {
    struct pool_block *block = pool->blocks;
    pool->blocks = block->next;
    free(block);
  }
}

bool pool_refuse(struct error *error) {
  return error_refuse(error, ERROR_MEMORY_FULL, NULL, "there is no memory for the request's lists now");
}
