// See buffers.h.
#include "server/jobs/buffers.h"

#include <stdlib.h>

void buffers_init(struct buffers *buffers, const struct devices *devices, size_t budget, struct clients *clients) {
  *buffers = (struct buffers){.devices = devices, .budget = budget, .clients = clients};
}

static void release(struct buffer *list) {
  while (list) {
    struct buffer *next = list->next;
    list->device->backend->host_release(list->device->handle, list->data, list->capacity);
    free(list);
    list = next;
  }
}

void buffers_end(struct buffers *buffers) {
  for (int tier = 0; tier < BUFFER_TIERS; tier++) release(buffers->free[tier]);
}

// Moves free buffers out of the pool, largest first, until `size` more bytes fit the budget. The caller frees the list,
// without the lock.
static struct buffer *evict(struct buffers *buffers, size_t size) HOLDS(buffers->clients->lock) {
  struct buffer *evicted = NULL;
  for (int tier = BUFFER_TIERS - 1; tier >= 0; tier--) {
    while (buffers->free[tier] && buffers->budget - buffers->allocated < size) {
      struct buffer *buffer = buffers->free[tier];
      buffers->free[tier] = buffer->next;
      buffers->allocated -= buffer->capacity;
      buffer->next = evicted;
      evicted = buffer;
    }
  }
  return evicted;
}

static struct buffer *allocate(struct buffers *buffers, int tier) {
  struct buffer *buffer = malloc(sizeof *buffer);
  if (!buffer) return NULL;
  const struct device *device = devices_main(buffers->devices);
  *buffer = (struct buffer){.pool = buffers, .device = device, .tier = tier, .capacity = buffer_tier_size(tier)};
  buffer->data = device->backend->host_alloc(device->handle, buffer->capacity);
  if (buffer->data) return buffer;
  free(buffer);
  return NULL;
}

// Counts `bytes` more in use, if the budget has room. `*evicted`: free buffers that had to leave the pool.
static bool spend(struct buffers *buffers, size_t bytes, struct buffer **evicted) HOLDS(buffers->clients->lock) {
  if (bytes > buffers->budget - buffers->in_use) return false;  // evicting would not help
  *evicted = evict(buffers, bytes);
  buffers->allocated += bytes;
  buffers->in_use += bytes;
  return true;
}

// A free buffer of the pool, in use from now on; NULL: none.
static struct buffer *reuse(struct buffers *buffers, int tier) HOLDS(buffers->clients->lock) {
  struct buffer *buffer = buffers->free[tier];
  if (!buffer) return NULL;
  buffers->free[tier] = buffer->next;
  buffers->in_use += buffer->capacity;
  return buffer;
}

// Whether the CPU's device allocated the buffer while no GPU worked, and a GPU works again.
static bool is_outdated(const struct buffers *buffers, const struct buffer *buffer) {
  return buffer->device == &buffers->devices->cpu && atomic_load(&buffers->devices->working) > 0;
}

// ---- the clients' shares --------------------------------------------------------------------------------------------

// Whether the client's shares allow the bytes. Sets shortage->share and ->grant.
static bool allows(const struct buffers *buffers, const struct client *client, enum share share, int64_t bytes,
                   int64_t mine, struct shortage *shortage) HOLDS(buffers->clients->lock) {
  shortage->share = SHARE_BYTES;
  shortage->grant = share_judge(buffers->clients, client, SHARE_BYTES, bytes, mine);
  if (shortage->grant != GRANTED || share == SHARE_BYTES) return shortage->grant == GRANTED;
  shortage->share = share;
  shortage->grant = share_judge(buffers->clients, client, share, bytes, mine);
  return shortage->grant == GRANTED;
}

// Adds the bytes, which may be negative, to what the client holds.
static void count(struct buffers *buffers, struct client *client, enum share share, int64_t bytes)
    HOLDS(buffers->clients->lock) {
  share_hold(buffers->clients, client, SHARE_BYTES, bytes);
  if (share != SHARE_BYTES) share_hold(buffers->clients, client, share, bytes);
}

// `client`: NULL for memory that no client's share counts.
static void release_bytes(struct buffers *buffers, struct client *client, enum share share, int64_t bytes) {
  lock_acquire(&buffers->clients->lock);
  buffers->in_use -= (size_t)bytes;
  buffers->allocated -= (size_t)bytes;
  if (client) count(buffers, client, share, -bytes);
  lock_release(&buffers->clients->lock);
}

struct buffer *buffer_acquire(struct buffers *buffers, struct client *client, enum share share, size_t size,
                              size_t mine, struct shortage *shortage) {
  int tier = buffer_tier_of(size);
  struct buffer *buffer = NULL, *evicted = NULL;
  *shortage = (struct shortage){OVER_SERVER_LIMIT, SHARES, (int64_t)size};
  if (tier == BUFFER_TIERS) return NULL;
  int64_t capacity = (int64_t)buffer_tier_size(tier);
  lock_acquire(&buffers->clients->lock);
  bool allowed = allows(buffers, client, share, capacity, (int64_t)mine, shortage);
  if (allowed) buffer = reuse(buffers, tier);
  bool fits = buffer || (allowed && spend(buffers, (size_t)capacity, &evicted));
  if (fits) count(buffers, client, share, capacity);
  lock_release(&buffers->clients->lock);
  if (allowed && !fits) *shortage = (struct shortage){OVER_SERVER_LIMIT, SHARE_BYTES, (int64_t)size};
  if (!fits) return NULL;
  if (!buffer) {
    release(evicted);
    buffer = allocate(buffers, tier);
  }
  if (!buffer) {
    release_bytes(buffers, client, share, capacity);
    *shortage = (struct shortage){OVER_SERVER_LIMIT, SHARES, (int64_t)size};
    return NULL;
  }
  buffer->client = client;
  buffer->share = share;
  return buffer;
}

bool budget_acquire(struct buffers *buffers, struct client *client, size_t bytes, size_t mine,
                    struct shortage *shortage) {
  struct buffer *evicted = NULL;
  *shortage = (struct shortage){GRANTED, SHARE_BYTES, (int64_t)bytes};
  lock_acquire(&buffers->clients->lock);
  bool fits = (!client || allows(buffers, client, SHARE_BYTES, (int64_t)bytes, (int64_t)mine, shortage)) &&
              spend(buffers, bytes, &evicted);
  if (fits && client) count(buffers, client, SHARE_BYTES, (int64_t)bytes);
  lock_release(&buffers->clients->lock);
  release(evicted);
  if (!fits && shortage->grant == GRANTED) shortage->grant = OVER_SERVER_LIMIT;
  return fits;
}

void budget_release(struct buffers *buffers, struct client *client, size_t bytes) {
  release_bytes(buffers, client, SHARE_BYTES, (int64_t)bytes);
}

bool buffer_may_acquire(struct buffers *buffers, struct client *client, enum share share, size_t size, size_t mine,
                        struct shortage *shortage) {
  *shortage = (struct shortage){.amount = (int64_t)size};
  lock_acquire(&buffers->clients->lock);
  bool may = allows(buffers, client, share, (int64_t)buffer_capacity(size), (int64_t)mine, shortage);
  lock_release(&buffers->clients->lock);
  return may;
}

bool buffer_move(struct buffer *buffer, enum share share, struct shortage *shortage) {
  struct clients *clients = buffer->pool->clients;
  int64_t capacity = (int64_t)buffer->capacity;
  *shortage = (struct shortage){share_acquire(clients, buffer->client, share, capacity, 0), share, capacity};
  if (shortage->grant != GRANTED) return false;
  if (buffer->share != SHARE_BYTES) share_release(clients, buffer->client, buffer->share, capacity);
  buffer->share = share;
  return true;
}

static void drop(struct buffer *buffer) {
  const struct buffer was = *buffer;
  buffer->next = NULL;
  release(buffer);
  release_bytes(was.pool, was.client, was.share, (int64_t)was.capacity);
}

void buffer_release(struct buffer *buffer) {
  struct buffers *buffers = buffer->pool;
  if (is_outdated(buffers, buffer)) {
    drop(buffer);
    return;
  }
  lock_acquire(&buffers->clients->lock);
  count(buffers, buffer->client, buffer->share, -(int64_t)buffer->capacity);
  buffers->in_use -= buffer->capacity;
  buffer->next = buffers->free[buffer->tier];
  buffers->free[buffer->tier] = buffer;
  lock_release(&buffers->clients->lock);
}
