// Objects: POSIX shared memory (shm_open), which clients name by keys. Which of them a client may have.
//
// A key begins with one of the operator's prefixes. What else it takes depends on how the client is known:
//   - on a Unix socket, by its user id: the object must belong to that user. So the client gets nothing through the
//     daemon that it could not open itself. Root has no right to more: it may have given up the right to open files;
//   - over TCP, by its user's name, if the service knows users (tokens, client certificates): the key must begin with
//     PREFIX:NAME: where NAME is written as in a URL (RFC 3986). Neither a prefix nor a name so written has a colon, so
//     no key is of two users. A client without a name has none;
//   - over TCP of a service without users not at all: all processes on this machine are one client.
//
// An object is never trusted: its owner may shorten it, write to it, unlink it or hold a lease on it at any time. IO
// threads open objects, and nobody's deed makes that wait.
#ifndef VOXELD_OBJECTS_H
#define VOXELD_OBJECTS_H

#include <stdint.h>
#include <sys/types.h>

#include "api/base/problem.h"
#include "kernels/kernels.h"
#include "server/config/options.h"

struct object {
  int fd;        // -1: none
  dev_t device;  // with `inode`, which object it is
  ino_t inode;
  uint64_t bytes;  // of it when it was opened
};

// Who asks for an object.
struct object_asker {
  const char *user;     // by token or certificate; "": none
  const char *address;  // the client's own: nobody is between
};

// Opens the object of that key. False with an error, if there is none that the asker may have. Either way the caller
// closes `fd`, if there is one, which may take long: the last to close an object frees its memory.
VX_WARN_UNUSED bool object_open(const struct options *options, const struct object_asker *asker, const char *key,
                                struct object *object, struct error *error);
// Writes what the asker's keys may begin with, as the strings of a JSON array.
void object_keys_write(const struct options *options, const struct object_asker *asker, struct text *out);

#endif
