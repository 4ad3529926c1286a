// See hosts.h.
#include "server/config/hosts.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "server/base/base.h"

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

// Copies the name, without a dot at its end, or the address in brackets. False if the name is too long, or if anything
// but a port follows.
static bool read_name(const char *host, bool bracketed, char name[HOST_SIZE]) {
  const char *begin = host + bracketed;
  size_t length = strcspn(begin, bracketed ? "]" : ":");
  const char *end = begin + length;
  if (bracketed && *end++ != ']') return false;
  if (*end == ':') end += 1 + strspn(end + 1, "0123456789");
  if (!bracketed && length > 1 && begin[length - 1] == '.') length--;
  if (*end || length >= HOST_SIZE) return false;
  memcpy(name, begin, length);
  name[length] = '\0';
  return true;
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
  unsigned char bytes[16];
  bool bracketed = host[0] == '[';
  if (!read_name(host, bracketed, name)) return false;
  if (bracketed) return inet_pton(AF_INET6, name, bytes) == 1;
  return !name[0] || inet_pton(AF_INET, name, bytes) == 1 || strcasecmp(name, "localhost") == 0 ||
         ends_in(name, ".localhost") || is_machine(name);
}

static bool is_origin_of(const char *origin, const char *host) {
  static const char *const schemes[] = {"http://", "https://"};
  for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
    size_t length = strlen(schemes[i]);
    if (strncasecmp(origin, schemes[i], length) == 0) return host[0] && strcasecmp(origin + length, host) == 0;
  }
  return false;
}

// "none" is the user, by the address bar or a bookmark. "same-site" may be a page at another port, which is foreign.
bool page_is_foreign(const char *origin, const char *site, const char *host) {
  if (site && strcmp(site, "same-origin") != 0 && strcmp(site, "none") != 0) return true;
  return origin && !is_origin_of(origin, host);
}

bool hosts_have(const char *list, const char *host) {
  char name[HOST_SIZE];
  return list[0] && read_name(host, false, name) && list_has(list, name);
}
