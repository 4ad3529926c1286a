// Objects: memory that clients share. Decides who may open which object, and copies the bytes.
//
// Clients name POSIX shared memory (shm_open) by keys. A key begins with one of the operator's prefixes. A second rule
// depends on how the server knows the client:
//   - On a Unix socket, by its user id: the object must belong to that user. This holds for root too, because a client
//     that is root may have given up the right to open all files.
//   - Over TCP, with tokens or client certificates, by its user name: the key must begin with PREFIX:NAME: where NAME
//     is written as in a URL (RFC 3986). Prefixes and written names have no colon, so each key belongs to one user. A
//     client without a name may have no key.
//   - Over TCP, without users: there is no further rule.
//
// The owner of such an object may shorten it, write to it, unlink it or lease it at any time. No call waits for the
// owner.
//
// Clients name blocks of GPU memory by CUDA's handles. Only the owner can make a handle, so a handle is enough to open
// the block. The block stays whole until it is closed. Opening it waits for the driver.
#ifndef VOXELD_OBJECTS_H
#define VOXELD_OBJECTS_H

#include <stdint.h>
#include <sys/types.h>

#include "api/wire/region.h"
#include "kernels/kernels.h"
#include "server/config/options.h"
#include "server/jobs/devices.h"

struct object {
  int fd;        // of shared memory; -1: none
  dev_t device;  // identifies the file, with `inode`
  ino_t inode;
  const struct device *gpu;  // of a block; NULL: none
  char *block;               // its address, for this GPU alone
  uint64_t bytes;            // its size when it was opened
};

struct object_asker {
  const char *user;     // by token or certificate; "": none
  const char *address;  // of the client itself, not of a proxy
};

// False with an error: there is no such object, or the asker may not have it. The caller closes the object even after
// false.
VX_WARN_UNUSED bool object_open(const struct options *options, const struct devices *devices,
                                const struct object_asker *asker, const struct region_terms *terms,
                                struct object *object, struct error *error);
// May take long, because the last to close an object frees its memory.
void object_close(struct object *object);
// Whether shared memory was unlinked. False for a block of GPU memory.
bool object_is_unlinked(const struct object *object);
bool object_is_same(const struct object *one, const struct object *other);

// Copy `bytes` bytes from or to byte `at` of the object.
VX_WARN_UNUSED bool object_read(const struct object *object, uint64_t at, size_t bytes, char *out, struct error *error);
VX_WARN_UNUSED bool object_write(const struct object *object, uint64_t at, const char *data, size_t bytes,
                                 struct error *error);
// Writes what the asker's keys may begin with, as strings of a JSON array.
void object_keys_write(const struct options *options, const struct object_asker *asker, struct text *out);

#endif
