// Objects of shared memory; see objects.h.
#include "server/jobs/objects.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/wire/region.h"

static bool has_prefix(const char *key, const char *prefixes) {
  while (*prefixes) {
    size_t length = strcspn(prefixes, ",");
    if (strncmp(key, prefixes, length) == 0) return true;
    prefixes += length + (prefixes[length] == ',');
  }
  return false;
}

// Whether the client may have the object: it is memory and, if the client is known by its user id, the client's own.
static bool is_allowed(const struct stat *object, const char *address) {
  static const char unix_peer[] = "unix:";
  size_t length = sizeof unix_peer - 1;
  if (!S_ISREG(object->st_mode)) return false;
  if (strncmp(address, unix_peer, length) != 0) return true;
  unsigned long user = strtoul(address + length, NULL, 10);
  return user == 0 || user == object->st_uid;
}

// Says the same of each key that cannot be had, so that nobody learns which keys others have.
static bool refuse_key(struct problem *problem, const char *key) {
  return problem_set(problem, PROBLEM_BAD_REQUEST, "key",
                     "the key '%.80s' cannot be opened; it must be shared memory of the client (shm_open) which the "
                     "server's user, of id %u, may read and write, and which no process has a lease on",
                     key, (unsigned)geteuid());
}

// Without O_NONBLOCK, who has a lease on the object (fcntl, F_SETLEASE) would hold up the opening for
// /proc/sys/fs/lease-break-time, 45 s by default.
static int open_key(const char *key) {
  char name[REGION_KEY_SIZE + 1];
  if (strchr(key, '/')) return -1;
  snprintf(name, sizeof name, "/%s", key);
  return shm_open(name, O_RDWR | O_NONBLOCK, 0);
}

bool object_open(const char *key, const char *prefixes, const char *address, struct object *object,
                 struct problem *problem) {
  const char *name = key + strspn(key, "/");
  struct stat status;
  object->fd = -1;
  if (!has_prefix(name, prefixes))
    return problem_set(problem, PROBLEM_BAD_REQUEST, "key",
                       "the key is '%.80s'; allowed: keys that begin with one of %.200s (--shared-memory-prefix)", key,
                       prefixes);
  object->fd = open_key(name);
  if (object->fd < 0 || fstat(object->fd, &status) != 0 || !is_allowed(&status, address))
    return refuse_key(problem, key);
  object->device = status.st_dev;
  object->inode = status.st_ino;
  object->bytes = (uint64_t)status.st_size;
  return true;
}
