// See objects.h.
#include "server/jobs/objects.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/base/json_write.h"
#include "server/clients/access.h"

// ---- keys -----------------------------------------------------------------------------------------------------------

enum { OWN_SIZE = 3 * USER_SIZE };  // each byte of the name takes up to three

// The user id of a client on a Unix socket (unix:UID). False for other addresses.
static bool read_user(const char *address, unsigned long *user) {
  static const char scheme[] = "unix:";
  size_t length = sizeof scheme - 1;
  if (strncmp(address, scheme, length) != 0) return false;
  *user = strtoul(address + length, NULL, 10);
  return true;
}

// Writes what follows the prefix in the asker's keys: nothing, or the :NAME: of its user. False: the asker is
// allowed no key.
static bool write_own(const struct options *options, const struct object_asker *asker, char own[OWN_SIZE]) {
  static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~";
  struct text text = text_over(own, OWN_SIZE);
  unsigned long user;
  own[0] = '\0';
  if (read_user(asker->address, &user) || !(options->token_file[0] || options->tls_client_ca[0])) return true;
  text_put(&text, ":");
  for (const char *c = asker->user; *c; c++)
    if (strchr(plain, *c))
      text_append(&text, c, 1);
    else
      text_printf(&text, "%%%02X", (unsigned char)*c);
  text_put(&text, ":");
  return asker->user[0] && text_complete(&text);
}

static bool may_begin(const struct options *options, const char *own, const char *key) {
  const char *prefix = options->shared_memory_prefix;
  while (*prefix) {
    size_t length = strcspn(prefix, ",");
    if (strncmp(key, prefix, length) == 0 && strncmp(key + length, own, strlen(own)) == 0) return true;
    prefix += length + (prefix[length] == ',');
  }
  return false;
}

// Writes what keys with the next prefix begin with, and moves `*prefix` past that prefix. False: it was the last.
static bool write_beginning(const char **prefix, const char *own, struct text *out) {
  size_t length = strcspn(*prefix, ",");
  text_append(out, *prefix, length);
  text_put(out, own);
  *prefix += length + ((*prefix)[length] == ',');
  return **prefix;
}

static bool check_key(const struct options *options, const char *own, const char *key, struct error *error) {
  char beginnings[256];
  struct text text = text_over(beginnings, sizeof beginnings);
  if (may_begin(options, own, key + strspn(key, "/"))) return true;
  for (const char *prefix = options->shared_memory_prefix; write_beginning(&prefix, own, &text);) text_put(&text, ",");
  return error_refuse(error, ERROR_BAD_REQUEST, "key", "the key is '%.80s'; allowed: keys that begin with one of %s%s",
                      key, beginnings,
                      own[0] ? " (--shared-memory-prefix, and the user's name)" : " (--shared-memory-prefix)");
}

void object_keys_write(const struct options *options, const struct object_asker *asker, struct text *out) {
  char own[OWN_SIZE];
  bool any = write_own(options, asker, own);
  for (const char *prefix = options->shared_memory_prefix; any && *prefix;) {
    json_begin_string(out);
    (void)write_beginning(&prefix, own, out);
    json_end(out);
  }
}

// ---- opening --------------------------------------------------------------------------------------------------------

// The user id that the system shows for users without an id here, such as users of another container.
static unsigned long nobody_known(void) {
  char text[32];
  FILE *file = fopen("/proc/sys/kernel/overflowuid", "re");
  bool told = file && fgets(text, sizeof text, file);
  if (file) fclose(file);
  return told ? strtoul(text, NULL, 10) : 65534;
}

static bool is_allowed(const struct stat *object, const char *address) {
  unsigned long user;
  if (!S_ISREG(object->st_mode)) return false;
  return !read_user(address, &user) || (user == object->st_uid && user != nobody_known());
}

// The same text for every failure, so that no client learns which keys others have.
static bool refuse_key(struct error *error, const char *key) {
  return error_refuse(
      error, ERROR_BAD_REQUEST, "key",
      "the key '%.80s' cannot be opened; it must name shared memory (shm_open) of the client. "
      "The server's user (id %u) must be able to read and write it, and no process may have a lease on it",
      key, (unsigned)geteuid());
}

// Without O_NONBLOCK, a lease on the object (fcntl, F_SETLEASE) would delay the open by 45 s
// (/proc/sys/fs/lease-break-time).
static int open_key(const char *key) {
  char name[REGION_KEY_SIZE + 1];
  key += strspn(key, "/");
  if (strchr(key, '/')) return -1;
  snprintf(name, sizeof name, "/%s", key);
  return shm_open(name, O_RDWR | O_NONBLOCK, 0);
}

static bool open_file(const struct options *options, const struct object_asker *asker, const char *own, const char *key,
                      struct object *object, struct error *error) {
  struct stat status;
  if (!check_key(options, own, key, error)) return false;
  object->fd = open_key(key);
  if (object->fd < 0 || fstat(object->fd, &status) != 0 || !is_allowed(&status, asker->address))
    return refuse_key(error, key);
  object->device = status.st_dev;
  object->inode = status.st_ino;
  object->bytes = (uint64_t)status.st_size;
  return true;
}

static bool open_block(const struct devices *devices, const struct region_terms *terms, struct object *object,
                       struct error *error) {
  const struct device *gpu = NULL;
  struct vx_block block;
  for (int i = 0; i < devices->count; i++)
    if ((uint64_t)devices->gpu[i].index == terms->gpu) gpu = &devices->gpu[i];
  if (!devices->count || (gpu && gpu->description.integrated))
    return error_refuse(error, ERROR_NO_SHARED_MEMORY, NULL, "this server shares no GPU memory: %s",
                        gpu ? "its GPU has no memory of its own" : "it has no GPU");
  if (!gpu)
    return error_refuse(error, ERROR_BAD_REQUEST, "device_id", "this server does not use the GPU %llu (--devices)",
                        (unsigned long long)terms->gpu);
  if (gpu->backend->block_open(gpu->handle, terms->handle, &block, error) != VX_OK) {
    (void)error_prefix(error, "the handle of GPU memory cannot be opened: ");
    error->kind = ERROR_BAD_REQUEST;
    return error_blame(error, "raw_handle");
  }
  object->gpu = gpu;
  object->block = block.memory;
  object->bytes = block.bytes;
  return true;
}

bool object_open(const struct options *options, const struct devices *devices, const struct object_asker *asker,
                 const struct region_terms *terms, struct object *object, struct error *error) {
  char own[OWN_SIZE];
  *object = (struct object){.fd = -1};
  if (!write_own(options, asker, own))
    return error_refuse(error, ERROR_NO_SHARED_MEMORY, NULL,
                        "over TCP, this server shares memory only with clients that show a token or a certificate; "
                        "others may use a Unix socket");
  return terms->kind == REGION_CUDA ? open_block(devices, terms, object, error)
                                    : open_file(options, asker, own, terms->key, object, error);
}

void object_close(struct object *object) {
  if (object->fd >= 0) (void)close(object->fd);
  if (object->gpu) object->gpu->backend->block_close(object->gpu->handle, object->block);
}

bool object_is_unlinked(const struct object *object) {
  struct stat status;
  return object->fd >= 0 && fstat(object->fd, &status) == 0 && status.st_nlink == 0;
}

bool object_is_same(const struct object *one, const struct object *other) {
  return one->gpu == other->gpu && one->block == other->block && one->device == other->device &&
         one->inode == other->inode;
}

// ---- copying --------------------------------------------------------------------------------------------------------

static const char shortened[] = "its owner has shortened the memory since it was registered";

static bool refuse_copy(struct error *error, const char *reason) {
  return error_refuse(error, ERROR_BAD_BODY, NULL, "%s", reason);
}

static bool copy_block(const struct object *object, void *to, const void *from, size_t bytes, struct error *error) {
  return bytes == 0 || object->gpu->backend->block_copy(object->gpu->handle, to, from, bytes, error) == VX_OK;
}

bool object_read(const struct object *object, uint64_t at, size_t bytes, char *out, struct error *error) {
  if (object->gpu) return copy_block(object, out, object->block + at, bytes, error);
  while (bytes > 0) {
    ssize_t got = pread(object->fd, out, bytes, (off_t)at);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return refuse_copy(error, got < 0 ? strerror(errno) : shortened);
    out += got;
    at += (uint64_t)got;
    bytes -= (size_t)got;
  }
  return true;
}

// Checks the size first, because writing beyond the end would lengthen the memory again.
bool object_write(const struct object *object, uint64_t at, const char *data, size_t bytes, struct error *error) {
  struct stat status;
  if (object->gpu) return copy_block(object, object->block + at, data, bytes, error);
  if (fstat(object->fd, &status) != 0 || (uint64_t)status.st_size < at + bytes) return refuse_copy(error, shortened);
  while (bytes > 0) {
    ssize_t put = pwrite(object->fd, data, bytes, (off_t)at);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return refuse_copy(error, put < 0 ? strerror(errno) : "it takes no more");
    data += put;
    at += (uint64_t)put;
    bytes -= (size_t)put;
  }
  return true;
}
