// Pins; see pins.h.
#include "server/jobs/pins.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "server/base/log.h"

enum { PAGE = 4096, NOT_PINNED = 0, BUSY, PINNED, REFUSED };

// Bit 63 of a page's entry: the mapping still has the page. Only an access by the CPU could bring another one in.
static bool has_page(const struct pinner *pinner, const char *byte) {
  const uint64_t present = UINT64_C(1) << 63;
  uint64_t entry = 0, page = (uintptr_t)byte / PAGE;
  ssize_t got = pread(pinner->pagemap, &entry, sizeof entry, (off_t)(page * sizeof entry));
  return got == (ssize_t)sizeof entry && (entry & present) != 0;
}

static void close_pagemap(struct pinner *pinner) {
  if (pinner->pagemap >= 0) (void)close(pinner->pagemap);
  pinner->pagemap = -1;
}

void pinner_init(struct pinner *pinner, struct clients *clients, bool off) {
  *pinner = (struct pinner){.clients = clients, .pagemap = -1};
  pthread_mutex_init(&pinner->lock, NULL);
  if (!off && sysconf(_SC_PAGESIZE) == PAGE) pinner->pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  // An emulator of processors or kernels may tell of other pages than the process has.
  const char here = 1;
  if (pinner->pagemap >= 0 && !has_page(pinner, &here)) close_pagemap(pinner);
}

void pinner_destroy(struct pinner *pinner) {
  close_pagemap(pinner);
  pthread_mutex_destroy(&pinner->lock);
}

// ---- chunks ---------------------------------------------------------------------------------------------------------

static size_t chunks_of(const struct pins *pins) { return (pins->bytes + PIN_CHUNK - 1) / PIN_CHUNK; }

static size_t chunk_bytes(const struct pins *pins, size_t chunk) {
  size_t left = pins->bytes - chunk * PIN_CHUNK;
  return left < PIN_CHUNK ? left : PIN_CHUNK;
}

// With the lock held. Only addresses are taken: no page is touched.
static bool map(struct pins *pins, const struct pins_file *file, const struct device *device) {
  size_t lead = file->offset % PAGE, bytes = (lead + file->bytes + PAGE - 1) / PAGE * PAGE;
  off_t begin = (off_t)(file->offset - lead);
  void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file->fd, begin);
  if (memory == MAP_FAILED) return false;
  pins->memory = memory;
  pins->lead = lead;
  pins->bytes = bytes;
  pins->chunks = calloc(chunks_of(pins), 1);
  if (pins->chunks) {
    pins->device = device;
    return true;
  }
  (void)munmap(memory, bytes);
  return false;
}

static bool acquire_chunk(struct pinner *pinner, struct pins *pins, size_t chunk) {
  int64_t bytes = (int64_t)chunk_bytes(pins, chunk);
  if (pins->chunks[chunk] == PINNED) return true;
  if (client_take(pinner->clients, pins->client, SHARE_PINNED, bytes, 0) != GRANTED) return false;
  pins->chunks[chunk] = BUSY;
  return true;
}

static void release_chunk(struct pinner *pinner, struct pins *pins, size_t chunk) {
  if (pins->chunks[chunk] != BUSY) return;
  pins->chunks[chunk] = NOT_PINNED;
  client_give(pinner->clients, pins->client, SHARE_PINNED, (int64_t)chunk_bytes(pins, chunk));
}

// With the lock held: takes the client's share for the chunks from first to last that are not pinned yet. They are
// busy then. False, with nothing taken, if another thread pins one, one cannot be pinned, or the share is used up.
static bool acquire_chunks(struct pinner *pinner, struct pins *pins, size_t first, size_t last) {
  for (size_t chunk = first; chunk <= last; chunk++)
    if (pins->chunks[chunk] == BUSY || pins->chunks[chunk] == REFUSED) return false;
  for (size_t chunk = first; chunk <= last; chunk++) {
    if (acquire_chunk(pinner, pins, chunk)) continue;
    while (chunk-- > first) release_chunk(pinner, pins, chunk);
    return false;
  }
  return true;
}

static void end_chunk(struct pinner *pinner, struct pins *pins, size_t chunk, bool pinned) {
  int64_t bytes = (int64_t)chunk_bytes(pins, chunk);
  pthread_mutex_lock(&pinner->lock);
  pins->chunks[chunk] = pinned ? PINNED : REFUSED;
  pthread_mutex_unlock(&pinner->lock);
  if (pinned)
    atomic_fetch_add(&pinner->bytes, bytes);
  else
    client_give(pinner->clients, pins->client, SHARE_PINNED, bytes);
}

// Without the lock, as it takes long: the chunk is busy, so nobody else pins it.
static bool pin_chunk(struct pinner *pinner, struct pins *pins, size_t chunk) {
  struct vx_error error = {""};
  const struct device *device = pins->device;
  char *memory = pins->memory + chunk * PIN_CHUNK;
  bool pinned = device->backend->host_pin(device->handle, memory, chunk_bytes(pins, chunk), &error) == VX_OK;
  end_chunk(pinner, pins, chunk, pinned);
  if (!pinned && atomic_fetch_add(&pinner->refusals, 1) == 0)
    log_event(LOG_WARNING, "shared memory cannot be pinned: it is copied; later failures are only counted", "error",
              error.text);
  return pinned;
}

// Pins those that acquire_chunks made busy: no other thread does anything to them.
static bool pin_chunks(struct pinner *pinner, struct pins *pins, size_t first, size_t last) {
  bool good = true;
  for (size_t chunk = first; chunk <= last; chunk++)
    if (pins->chunks[chunk] == BUSY && !pin_chunk(pinner, pins, chunk)) good = false;
  return good;
}

// ---- in reach -------------------------------------------------------------------------------------------------------

static bool may_pin(const struct pinner *pinner, const struct pins *pins, uint64_t whole, const struct device *device) {
  return pinner->pagemap >= 0 && device->backend->host_pin && !pins->failed && whole <= PINS_MOST &&
         (!pins->device || pins->device->backend == device->backend);
}

char *pins_device_ptr(struct pinner *pinner, struct pins *pins, const struct pins_file *file, uint64_t at, size_t bytes,
                      const struct device *device) {
  if (bytes == 0) return NULL;
  pthread_mutex_lock(&pinner->lock);
  bool good = may_pin(pinner, pins, file->bytes, device);
  if (good && !pins->device) pins->failed = !map(pins, file, device);
  good = good && !pins->failed;
  size_t first = good ? (pins->lead + at) / PIN_CHUNK : 0, last = good ? (pins->lead + at + bytes - 1) / PIN_CHUNK : 0;
  good = good && acquire_chunks(pinner, pins, first, last);
  pthread_mutex_unlock(&pinner->lock);
  return good && pin_chunks(pinner, pins, first, last) ? pins->memory + pins->lead + at : NULL;
}

bool pins_attached(const struct pinner *pinner, const struct pins *pins, const char *memory, size_t bytes) {
  size_t begin = (size_t)(memory - pins->memory), end = begin + bytes;
  for (size_t chunk = begin / PIN_CHUNK; chunk * PIN_CHUNK < end; chunk++) {
    size_t after = (chunk + 1) * PIN_CHUNK;
    if (!has_page(pinner, pins->memory + (after < end ? after : end) - 1)) return false;
  }
  return true;
}

void pins_fail(struct pinner *pinner, struct pins *pins) {
  pthread_mutex_lock(&pinner->lock);
  pins->failed = true;
  pthread_mutex_unlock(&pinner->lock);
}

static bool unpin(struct pinner *pinner, struct pins *pins, size_t chunk) {
  size_t bytes = chunk_bytes(pins, chunk);
  bool gone = pins->device->backend->host_unpin(pins->device->handle, pins->memory + chunk * PIN_CHUNK);
  atomic_fetch_sub(&pinner->bytes, (long long)bytes);
  client_give(pinner->clients, pins->client, SHARE_PINNED, (int64_t)bytes);
  return gone;
}

void pins_close(struct pinner *pinner, struct pins *pins) {
  bool all = true;
  if (!pins->device) return;
  for (size_t chunk = 0; chunk < chunks_of(pins); chunk++)
    if (pins->chunks[chunk] == PINNED && !unpin(pinner, pins, chunk)) all = false;
  if (all) (void)munmap(pins->memory, pins->bytes);
  free(pins->chunks);
  pins->device = NULL;
}
