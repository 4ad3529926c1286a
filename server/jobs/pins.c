// See pins.h.
#include "server/jobs/pins.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "server/base/log.h"

enum { PAGE = 4096, NOT_PINNED = 0, PINNED, REFUSED };

// Bit 63 of an entry in pagemap: a page is mapped. It is still the pinned page: only an access by the CPU, which never
// comes, would map another one there.
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
  if (!off && sysconf(_SC_PAGESIZE) == PAGE) pinner->pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  // Checks a page that is present: an emulator of processors or kernels may show wrong pages.
  const char here = 1;
  if (pinner->pagemap >= 0 && !has_page(pinner, &here)) close_pagemap(pinner);
}

void pinner_end(struct pinner *pinner) { close_pagemap(pinner); }

// ---- chunks; with the lock of the pins held -------------------------------------------------------------------------

static size_t chunks_of(const struct pins *pins) { return (pins->mapped + PIN_CHUNK - 1) / PIN_CHUNK; }

static size_t chunk_bytes(const struct pins *pins, size_t chunk) {
  size_t left = pins->mapped - chunk * PIN_CHUNK;
  return left < PIN_CHUNK ? left : PIN_CHUNK;
}

// Reserves addresses; touches no page.
static bool map(struct pins *pins, int fd, const struct device *device) {
  size_t lead = pins->offset % PAGE, bytes = (lead + pins->bytes + PAGE - 1) / PAGE * PAGE;
  off_t begin = (off_t)(pins->offset - lead);
  void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, begin);
  if (memory == MAP_FAILED) return false;
  pins->memory = memory;
  pins->lead = lead;
  pins->mapped = bytes;
  pins->chunks = calloc(chunks_of(pins), 1);
  if (pins->chunks) {
    pins->device = device;
    return true;
  }
  (void)munmap(memory, bytes);
  return false;
}

// Acquires the client's share for the unpinned chunks. False: a chunk was refused, or the share is used up.
static bool acquire_share(struct pins *pins, size_t first, size_t last) {
  int64_t bytes = 0;
  for (size_t chunk = first; chunk <= last; chunk++) {
    if (pins->chunks[chunk] == REFUSED) return false;
    if (pins->chunks[chunk] == NOT_PINNED) bytes += (int64_t)chunk_bytes(pins, chunk);
  }
  return bytes == 0 || share_acquire(pins->pinner->clients, pins->client, SHARE_PINNED, bytes, 0) == GRANTED;
}

// The caller has acquired the share for the chunk.
static bool pin_chunk(struct pins *pins, size_t chunk) {
  struct pinner *pinner = pins->pinner;
  struct error error = {0};
  const struct device *device = pins->device;
  size_t bytes = chunk_bytes(pins, chunk);
  if (pins->chunks[chunk] != NOT_PINNED) return true;
  if (device->backend->host_pin(device->handle, pins->memory + chunk * PIN_CHUNK, bytes, &error) == VX_OK) {
    pins->chunks[chunk] = PINNED;
    atomic_fetch_add(&pinner->bytes, (long long)bytes);
    return true;
  }
  pins->chunks[chunk] = REFUSED;
  share_release(pinner->clients, pins->client, SHARE_PINNED, (int64_t)bytes);
  if (atomic_fetch_add(&pinner->refusals, 1) == 0)
    log_event(LOG_WARNING, "shared memory cannot be pinned, so it is copied; further failures are counted, not logged",
              "error", error.text);
  return false;
}

static bool pin_chunks(struct pins *pins, size_t first, size_t last) {
  if (!acquire_share(pins, first, last)) return false;
  bool good = true;
  for (size_t chunk = first; chunk <= last; chunk++) good = pin_chunk(pins, chunk) && good;
  return good;
}

// ---- the pins of a region -------------------------------------------------------------------------------------------

void pins_init(struct pins *pins, struct pinner *pinner, struct client *client, uint64_t offset, uint64_t bytes) {
  *pins = (struct pins){.pinner = pinner, .client = client, .offset = offset, .bytes = bytes};
  lock_init(&pins->lock);
}

static bool may_pin(const struct pins *pins, const struct device *device) {
  return pins->pinner->pagemap >= 0 && device->backend->host_pin && !pins->failed && pins->bytes <= PINS_MOST &&
         (!pins->device || pins->device->backend == device->backend);
}

char *pins_device_ptr(struct pins *pins, int fd, uint64_t at, size_t bytes, const struct device *device) {
  if (bytes == 0) return NULL;
  lock_acquire(&pins->lock);
  bool good = may_pin(pins, device);
  if (good && !pins->device) good = map(pins, fd, device);
  size_t begin = pins->lead + at;
  good = good && pin_chunks(pins, begin / PIN_CHUNK, (begin + bytes - 1) / PIN_CHUNK);
  lock_release(&pins->lock);
  return good ? pins->memory + begin : NULL;
}

bool pins_verify(struct pins *pins, const char *memory, size_t bytes) {
  size_t begin = (size_t)(memory - pins->memory), end = begin + bytes;
  bool whole = true;
  for (size_t chunk = begin / PIN_CHUNK; whole && chunk * PIN_CHUNK < end; chunk++) {
    size_t after = (chunk + 1) * PIN_CHUNK;
    whole = has_page(pins->pinner, pins->memory + (after < end ? after : end) - 1);
  }
  if (whole) return true;
  lock_acquire(&pins->lock);
  pins->failed = true;
  lock_release(&pins->lock);
  return false;
}

static bool unpin(struct pins *pins, size_t chunk) {
  size_t bytes = chunk_bytes(pins, chunk);
  bool gone = pins->device->backend->host_unpin(pins->device->handle, pins->memory + chunk * PIN_CHUNK);
  atomic_fetch_sub(&pins->pinner->bytes, (long long)bytes);
  share_release(pins->pinner->clients, pins->client, SHARE_PINNED, (int64_t)bytes);
  return gone;
}

void pins_end(struct pins *pins) {
  bool all = true;
  lock_end(&pins->lock);
  if (!pins->device) return;
  for (size_t chunk = 0; chunk < chunks_of(pins); chunk++)
    if (pins->chunks[chunk] == PINNED && !unpin(pins, chunk)) all = false;
  if (all) (void)munmap(pins->memory, pins->mapped);
  free(pins->chunks);
}
