// See objects.h.
#include "server/jobs/objects.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/base/json_write.h"
#include "api/wire/region.h"
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

// Writes the part of the asker's keys after the prefix: nothing, or the :NAME: of its user. False: the asker may have
// no key.
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

// Writes the next beginning of keys, and moves `*prefix` past it. False: there is none.
static bool write_beginning(const char **prefix, const char *own, struct text *out) {
  size_t length = strcspn(*prefix, ",");
  text_append(out, *prefix, length);
  text_put(out, own);
  *prefix += length + ((*prefix)[length] == ',');
  return **prefix;
}

static bool check_key(const struct options *options, const struct object_asker *asker, const char *key,
                      struct error *error) {
  char own[OWN_SIZE], beginnings[256];
  struct text text = text_over(beginnings, sizeof beginnings);
  if (!write_own(options, asker, own))
    return error_refuse(error, ERROR_NO_SHARED_MEMORY, NULL,
                        "over TCP, this server shares memory only with clients that show a token or a certificate; "
                        "others may use a Unix socket");
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

// The id of the overflow user: the system shows it for users that have no id here, such as users of another container.
static unsigned long nobody_known(void) {
  char text[32];
  FILE *file = fopen("/proc/sys/kernel/overflowuid", "re");
  bool told = file && fgets(text, sizeof text, file);
  if (file) fclose(file);
  return told ? strtoul(text, NULL, 10) : 65534;
}

// Over a Unix socket, the object must be the client's own.
static bool is_allowed(const struct stat *object, const char *address) {
  unsigned long user;
  if (!S_ISREG(object->st_mode)) return false;
  return !read_user(address, &user) || (user == object->st_uid && user != nobody_known());
}

// One text for every failure, so that no client learns which keys other clients have.
static bool refuse_key(struct error *error, const char *key) {
  return error_refuse(error, ERROR_BAD_REQUEST, "key",
                      "the key '%.80s' cannot be opened; it must name shared memory (shm_open) of the client that "
                      "the server's user (id %u) may read and write, and that no process has a lease on",
                      key, (unsigned)geteuid());
}

// Without O_NONBLOCK, a lease on the object (fcntl, F_SETLEASE) would delay the open by
// /proc/sys/fs/lease-break-time, 45 s by default.
static int open_key(const char *key) {
  char name[REGION_KEY_SIZE + 1];
  key += strspn(key, "/");
  if (strchr(key, '/')) return -1;
  snprintf(name, sizeof name, "/%s", key);
  return shm_open(name, O_RDWR | O_NONBLOCK, 0);
}

bool object_open(const struct options *options, const struct object_asker *asker, const char *key,
                 struct object *object, struct error *error) {
  struct stat status;
  object->fd = -1;
  if (!check_key(options, asker, key, error)) return false;
  object->fd = open_key(key);
  if (object->fd < 0 || fstat(object->fd, &status) != 0 || !is_allowed(&status, asker->address))
    return refuse_key(error, key);
  object->device = status.st_dev;
  object->inode = status.st_ino;
  object->bytes = (uint64_t)status.st_size;
  return true;
}
