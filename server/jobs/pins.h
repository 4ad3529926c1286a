// Pins: parts of shared memory that GPUs read and write themselves.
//
// The memory is mapped, and those chunks of the mapping that jobs use are pinned, once each. The CPU never touches the
// mapping: its owner may shorten the memory at any time, and access by the CPU then ends in SIGBUS. A GPU goes on with
// the pages that were pinned. They are the memory's own no more, which pins_attached tells. Pages stay pinned until
// pins_close. Any thread.
#ifndef VOXELD_PINS_H
#define VOXELD_PINS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/clients/clients.h"
#include "server/jobs/devices.h"

enum { PIN_CHUNK = 2 << 20 };           // bytes that are pinned at once, but for the end of the memory
#define PINS_MOST ((uint64_t)64 << 30)  // larger memory is not pinned

// What all pins share.
struct pinner {
  pthread_mutex_t lock;  // over the chunks of all pins
  struct clients *clients;
  int pagemap;             // of this process; -1: nothing is pinned
  atomic_llong bytes;      // pinned now
  atomic_ullong refusals;  // chunks that the system or a GPU refused to pin
};

// The pins of one client's memory. All zero: nothing is pinned yet.
struct pins {
  struct client *client;        // the one field that pins_device_ptr wants set
  const struct device *device;  // by which all is pinned; NULL: nothing is mapped yet
  char *memory;                 // the mapping, of whole pages
  size_t bytes, lead;           // of the mapping; of these, in front of the memory
  unsigned char *chunks;        // the state of each; see pins.c
  bool failed;                  // nothing more is pinned
};

// The memory: a part of an open file.
struct pins_file {
  int fd;
  uint64_t offset, bytes;
};

// The limit of SHARE_PINNED bounds what is pinned. Nothing is with `off`, or if the system does not tell of pages.
void pinner_init(struct pinner *pinner, struct clients *clients, bool off);
void pinner_destroy(struct pinner *pinner);

// Where the device reaches `bytes` from byte `at` of the memory. Pins what is not pinned yet, at the cost of the
// client's share. NULL if that cannot be: the bytes must be copied.
char *pins_device_ptr(struct pinner *pinner, struct pins *pins, const struct pins_file *file, uint64_t at, size_t bytes,
                      const struct device *device);
// Whether these bytes, which pins_device_ptr gave, are the memory's still. Memory is shortened from its end, so the last
// page of each chunk tells. Holes that its owner punches are not noticed.
bool pins_attached(const struct pinner *pinner, const struct pins *pins, const char *memory, size_t bytes);
// Pins nothing more.
void pins_fail(struct pinner *pinner, struct pins *pins);
// Unpins and unmaps. No kernel may use the memory any more.
void pins_close(struct pinner *pinner, struct pins *pins);

#endif
