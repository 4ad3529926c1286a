// Objects: POSIX shared memory (shm_open), which clients name by keys. This module decides who may open which object.
//
// A key begins with one of the operator's prefixes. A second rule depends on how the server knows the client:
//   - On a Unix socket, by its user id: the object must belong to that user. So the daemon opens nothing that the
//     client could not open itself. A client that is root gets nothing more, because it may have given up the right to
//     open files.
//   - Over TCP, with tokens or client certificates, by the name of its user: the key must begin with PREFIX:NAME: where
//     NAME is written as in a URL (RFC 3986). Prefixes and written names have no colon, so each key belongs to one
//     user. A client without a name may have no key.
//   - Over TCP, without users: all processes on this machine are one client, and there is no further rule.
//
// The owner of an object may shorten it, write to it, unlink it or hold a lease on it at any time. I/O threads open
// objects; an owner cannot make them wait.
#ifndef VOXELD_OBJECTS_H
#define VOXELD_OBJECTS_H

#include <stdint.h>
#include <sys/types.h>

#include "kernels/kernels.h"
#include "server/config/options.h"

struct object {
  int fd;        // -1: none
  dev_t device;  // identifies the object, with `inode`
  ino_t inode;
  uint64_t bytes;  // its size when it was opened
};

// Who asks for an object.
struct object_asker {
  const char *user;     // by token or certificate; "": none
  const char *address;  // of the client itself, not of a proxy
};

// Opens the object of that key. False with an error: there is none, or the asker may not have it. The caller closes
// `fd` in both cases, if there is one. Closing may take long, because the last to close an object frees its memory.
VX_WARN_UNUSED bool object_open(const struct options *options, const struct object_asker *asker, const char *key,
                                struct object *object, struct error *error);
// Writes the beginnings that the asker's keys may have, as strings of a JSON array.
void object_keys_write(const struct options *options, const struct object_asker *asker, struct text *out);

#endif
