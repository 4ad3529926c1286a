// See buffers.h.
#include "server/jobs/buffers.h"

#include <stdlib.h>

void buffers_init(struct buffers *buffers, const struct devices *devices, size_t budget, struct clients *clients) {
  *buffers = (struct buffers){.devices = devices, .budget = budget, .clients = clients};
  lock_init(&buffers->lock);
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
  lock_end(&buffers->lock);
}

// Moves free buffers out of the pool, largest first, until `size` more bytes fit the budget. The caller frees the list
// after it has released the lock.
static struct buffer *evict(struct buffers *buffers, size_t size) HOLDS(buffers->lock) {
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

bool budget_acquire(struct buffers *buffers, size_t bytes) {
  struct buffer *evicted = NULL;
  lock_acquire(&buffers->lock);
  bool fits = bytes <= buffers->budget - buffers->in_use;  // if not, evicting does not help
  if (fits) {
    evicted = evict(buffers, bytes);
    buffers->allocated += bytes;
    buffers->in_use += bytes;
  }
  lock_release(&buffers->lock);
  release(evicted);
  return fits;
}

void budget_release(struct buffers *buffers, size_t bytes) {
  buffers->in_use -= bytes;
  buffers->allocated -= bytes;
}

static struct buffer *reuse(struct buffers *buffers, int tier) {
  lock_acquire(&buffers->lock);
  struct buffer *buffer = buffers->free[tier];
  if (buffer) {
    buffers->free[tier] = buffer->next;
    buffers->in_use += buffer->capacity;
  }
  lock_release(&buffers->lock);
  return buffer;
}

static void release_to_tier(struct buffers *buffers, struct buffer *buffer) {
  lock_acquire(&buffers->lock);
  buffer->next = buffers->free[buffer->tier];
  buffers->free[buffer->tier] = buffer;
  buffers->in_use -= buffer->capacity;
  lock_release(&buffers->lock);
}

// Whether the CPU's device allocated the buffer while no GPU worked, and a GPU works again.
static bool is_outdated(const struct buffers *buffers, const struct buffer *buffer) {
  const struct device *cpu = &buffers->devices->cpu;
  return buffer->device == cpu && devices_main(buffers->devices) != cpu;
}

// A free buffer of the pool or, if there is none, a new one. NULL: the budget is spent, or the system has no memory.
static struct buffer *obtain(struct buffers *buffers, int tier, bool *spent) {
  struct buffer *buffer = reuse(buffers, tier);
  if (buffer) return buffer;
  *spent = !budget_acquire(buffers, buffer_tier_size(tier));
  if (*spent) return NULL;
  buffer = allocate(buffers, tier);
  if (!buffer) budget_release(buffers, buffer_tier_size(tier));
  return buffer;
}

// ---- the clients' shares --------------------------------------------------------------------------------------------

struct buffer *buffer_acquire(struct buffers *buffers, struct client *client, enum share share, size_t size,
                              size_t mine, struct shortage *shortage) {
  int tier = buffer_tier_of(size);
  *shortage = (struct shortage){OVER_SERVER_LIMIT, SHARES, (int64_t)size};
  if (tier == BUFFER_TIERS) return NULL;
  int64_t capacity = (int64_t)buffer_tier_size(tier);
  shortage->share = share;
  shortage->grant = share_acquire_bytes(buffers->clients, client, &shortage->share, capacity, (int64_t)mine, true);
  if (shortage->grant != GRANTED) return NULL;
  bool spent = false;
  struct buffer *buffer = obtain(buffers, tier, &spent);
  if (buffer) {
    buffer->client = client;
    buffer->share = share;
  } else {
    share_release_bytes(buffers->clients, client, share, capacity);
    *shortage = (struct shortage){OVER_SERVER_LIMIT, spent ? SHARE_BYTES : SHARES, (int64_t)size};
  }
  return buffer;
}

bool budget_acquire_for(struct buffers *buffers, struct client *client, size_t bytes, size_t mine,
                        struct shortage *shortage) {
  *shortage = (struct shortage){share_acquire(buffers->clients, client, SHARE_BYTES, (int64_t)bytes, (int64_t)mine),
                                SHARE_BYTES, (int64_t)bytes};
  if (shortage->grant != GRANTED) return false;
  if (budget_acquire(buffers, bytes)) return true;
  share_release(buffers->clients, client, SHARE_BYTES, (int64_t)bytes);
  shortage->grant = OVER_SERVER_LIMIT;
  return false;
}

void budget_release_for(struct buffers *buffers, struct client *client, size_t bytes) {
  budget_release(buffers, bytes);
  share_release(buffers->clients, client, SHARE_BYTES, (int64_t)bytes);  // last, as in buffer_release
}

bool buffer_may_acquire(struct buffers *buffers, struct client *client, enum share share, size_t size, size_t mine,
                        struct shortage *shortage) {
  int64_t capacity = (int64_t)buffer_capacity(size);
  *shortage = (struct shortage){.share = share, .amount = (int64_t)size};
  shortage->grant = share_acquire_bytes(buffers->clients, client, &shortage->share, capacity, (int64_t)mine, false);
  return shortage->grant == GRANTED;
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

void buffer_release(struct buffer *buffer) {
  struct buffers *buffers = buffer->pool;
  struct client *client = buffer->client;
  enum share share = buffer->share;
  int64_t capacity = (int64_t)buffer->capacity;
  if (is_outdated(buffers, buffer)) {
    buffer->next = NULL;
    release(buffer);
    budget_release(buffers, (size_t)capacity);
  } else {
    release_to_tier(buffers, buffer);
  }
  // Last: a thread that gets the share must find the memory free.
  share_release_bytes(buffers->clients, client, share, capacity);
}

struct buffers_use buffers_use(const struct buffers *buffers) {
  return (struct buffers_use){buffers->budget, buffers->allocated, buffers->in_use};
}
