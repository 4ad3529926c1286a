// Pins: parts of shared memory that GPUs read and write themselves.
//
// The memory is mapped, and those chunks of the mapping that jobs use are pinned, once each. The CPU never touches the
// mapping: its owner may shorten the memory at any time, and access by the CPU then ends in SIGBUS. A GPU goes on with
// the pages that were pinned. They are the memory's own no more, which pins_verify_or_unpin notices. Pages stay pinned
// until pins_close. Any thread. Who wants memory that another thread pins waits for that.
#ifndef VOXELD_PINS_H
#define VOXELD_PINS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/base/lock.h"
#include "server/clients/clients.h"
#include "server/jobs/devices.h"

enum { PIN_CHUNK = 2 << 20 };           // bytes that are pinned at once, but for the end of the memory
#define PINS_MOST ((uint64_t)64 << 30)  // larger memory is not pinned

// What all pins share.
struct pinner {
  struct clients *clients;
  int pagemap;             // of this process; -1: nothing is pinned
  atomic_llong bytes;      // pinned now
  atomic_ullong refusals;  // chunks that the system or a GPU refused to pin
};

// The pins of one client's memory, which is a part of an open file.
struct pins {
  struct lock lock;
  struct pinner *pinner;
  struct client *client;
  uint64_t offset, bytes;       // of the memory in the file
  const struct device *device;  // by which all is pinned; NULL: nothing is mapped yet
  char *memory;                 // the mapping, of whole pages
  size_t mapped, lead;          // bytes of it; of these, in front of the memory
  unsigned char *chunks;        // the state of each; see pins.c
  bool failed;                  // nothing more is pinned
};

// The limit of SHARE_PINNED bounds what is pinned. Nothing is with `off`, or if the system does not tell of pages.
void pinner_init(struct pinner *pinner, struct clients *clients, bool off);
void pinner_destroy(struct pinner *pinner);

// Nothing is pinned yet.
void pins_init(struct pins *pins, struct pinner *pinner, struct client *client, uint64_t offset, uint64_t bytes);
// Unpins and unmaps. No kernel may use the memory any more.
void pins_close(struct pins *pins);

// Where the device reaches `bytes` from byte `at` of the memory, which is of the file `fd`. Pins what is not pinned
// yet, at the cost of the client's share. NULL if that cannot be: the bytes must be copied.
char *pins_device_ptr(struct pins *pins, int fd, uint64_t at, size_t bytes, const struct device *device);
// Whether these bytes, which pins_device_ptr gave, are the memory's still. If not, nothing more is pinned. Memory is
// shortened from its end, so the last page of each chunk tells. Holes that its owner punches are not noticed.
bool pins_verify_or_unpin(struct pins *pins, const char *memory, size_t bytes);

#endif
