// Pins: parts of shared memory that GPUs read and write in place.
//
// A chunk of the mapping is pinned when a job first uses it. It stays pinned until pins_end.
//
// The owner may shorten the memory at any time. So the CPU never touches the mapping, where it would get SIGBUS. A GPU
// keeps using the pinned pages, although they no longer belong to the memory; pins_verify detects this.
//
// Any thread. pins_device_ptr holds the lock while it pins.
#ifndef VOXELD_PINS_H
#define VOXELD_PINS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/base/lock.h"
#include "server/clients/clients.h"
#include "server/jobs/devices.h"

enum { PIN_CHUNK = 2 << 20 };           // bytes pinned at once; fewer at the end of the memory
#define PINS_MOST ((uint64_t)64 << 30)  // larger memory is not pinned

struct pinner {
  struct clients *clients;
  int pagemap;             // of this process; -1: nothing is pinned
  atomic_llong bytes;      // pinned now
  atomic_ullong refusals;  // chunks that the system or a GPU refused to pin
};

// The pins of a part of an open file, which is one client's memory.
struct pins {
  struct lock lock;
  struct pinner *pinner;
  struct client *client;
  uint64_t offset, bytes;       // of the memory in the file
  const struct device *device;  // pins the memory; NULL: nothing is mapped yet
  char *memory;                 // the mapping, of whole pages
  size_t mapped, lead;          // bytes of the mapping; bytes of it in front of the memory
  unsigned char *chunks;        // the state of each; see pins.c
  bool failed;                  // nothing more is pinned
};

// SHARE_PINNED bounds the pinned bytes. Nothing is pinned with `off`, or if the system does not show the pages of a
// process.
void pinner_init(struct pinner *pinner, struct clients *clients, bool off);
void pinner_end(struct pinner *pinner);

void pins_init(struct pins *pins, struct pinner *pinner, struct client *client, uint64_t offset, uint64_t bytes);
// Unpins and unmaps. No kernel may use the memory any more.
void pins_end(struct pins *pins);

// The device's address of `bytes` from byte `at` of the memory in file `fd`. Pins missing chunks. NULL: the bytes must
// be copied.
char *pins_device_ptr(struct pins *pins, int fd, uint64_t at, size_t bytes, const struct device *device);
// Whether these bytes, from pins_device_ptr, still belong to the memory. If not, pins nothing more. Checks the last
// page of each chunk, because memory is shortened from its end. Does not detect punched holes.
bool pins_verify(struct pins *pins, const char *memory, size_t bytes);

#endif
