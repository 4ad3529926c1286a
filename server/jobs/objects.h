// Objects: POSIX shared memory (shm_open), which clients name by keys. Which of them a client may have.
//
// An object is never trusted: its owner may shorten it, write to it, unlink it or hold a lease on it at any time. IO
// threads open objects, and nobody's deed makes that wait.
#ifndef VOXELD_OBJECTS_H
#define VOXELD_OBJECTS_H

#include <stdint.h>
#include <sys/types.h>

#include "api/base/problem.h"
#include "kernels/kernels.h"

struct object {
  int fd;        // -1: none
  dev_t device;  // with `inode`, which object it is
  ino_t inode;
  uint64_t bytes;  // of it when it was opened
};

// Opens the object of that key for the client at that address, if one of `prefixes` (options.h) allows the key. A
// client known by its user id (unix:UID) must own the object, so that it gets nothing through the daemon that it could
// not open itself. False with a problem. Either way the caller closes `fd`, if there is one, which may take long: the
// last to close an object frees its memory.
VX_WARN_UNUSED bool object_open(const char *key, const char *prefixes, const char *address, struct object *object,
                                struct problem *problem);

#endif
