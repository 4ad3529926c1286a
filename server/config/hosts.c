// Host headers; see hosts.h.
#include "server/config/hosts.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { HOST_SIZE = 256 };  // of a name, its NUL included: DNS allows 253 bytes

bool hosts_are_sound(const char *list) {
  static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  for (const char *next = list; *next;) {
    size_t length = strspn(next, allowed);
    if (length == 0 || length >= HOST_SIZE) return false;
    next += length;
    if (*next && (*next != ',' || !*++next)) return false;
  }
  return true;
}

// Copies the name in front of the port, without the dot that may end it. False if it is too long for a name.
static bool read_name(const char *host, char name[HOST_SIZE]) {
  size_t length = strcspn(host, ":");
  if (length > 1 && host[length - 1] == '.') length--;
  if (length >= HOST_SIZE) return false;
  memcpy(name, host, length);
  name[length] = '\0';
  return true;
}

static bool is_ipv6(const char *host) {
  char address[INET6_ADDRSTRLEN];
  unsigned char bytes[16];
  size_t length = strcspn(host + 1, "]");
  if (length >= sizeof address) return false;
  memcpy(address, host + 1, length);
  address[length] = '\0';
  return inet_pton(AF_INET6, address, bytes) == 1;
}

static bool ends_in(const char *name, const char *end) {
  size_t length = strlen(name), tail = strlen(end);
  return length > tail && strcasecmp(name + length - tail, end) == 0;
}

static bool is_machine(const char *name) {
  char own[HOST_SIZE];
  return gethostname(own, sizeof own) == 0 && strcasecmp(name, own) == 0;
}

bool host_is_own(const char *host) {
  char name[HOST_SIZE];
  unsigned char bytes[4];
  if (host[0] == '[') return is_ipv6(host);
  if (!read_name(host, name)) return false;
  return !name[0] || inet_pton(AF_INET, name, bytes) == 1 || strcasecmp(name, "localhost") == 0 ||
         ends_in(name, ".localhost") || is_machine(name);
}

bool hosts_have(const char *list, const char *host) {
  char name[HOST_SIZE];
  if (!read_name(host, name)) return false;
  for (const char *next = list; *next; next += *next == ',') {
    size_t length = strcspn(next, ",");
    if (length == strlen(name) && strncasecmp(next, name, length) == 0) return true;
    next += length;
  }
  return false;
}
