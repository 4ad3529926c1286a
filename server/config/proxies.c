// See proxies.h.
#include "server/config/proxies.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "api/params/values.h"

static const unsigned char wrapped_ipv4[12] = {[10] = 0xff, [11] = 0xff};  // ::ffff:0:0/96

// An IPv4-mapped IPv6 address becomes the IPv4 address. False if the text is not an address.
static bool read_address(const char *text, struct network *address) {
  if (inet_pton(AF_INET, text, address->address) == 1) {
    address->family = AF_INET;
    address->bits = 32;
    return true;
  }
  if (inet_pton(AF_INET6, text, address->address) != 1) return false;
  bool wraps = memcmp(address->address, wrapped_ipv4, sizeof wrapped_ipv4) == 0;
  if (wraps) memmove(address->address, address->address + 12, 4);
  address->family = wraps ? AF_INET : AF_INET6;
  address->bits = wraps ? 32 : 128;
  return true;
}

static bool read_network(const char *text, struct network *network) {
  char address[ADDRESS_SIZE];
  size_t length = strcspn(text, "/");
  if (length >= sizeof address) return false;
  memcpy(address, text, length);
  address[length] = '\0';
  if (!read_address(address, network)) return false;
  if (!text[length]) return true;
  const char *bits = text + length + 1;
  size_t digits = strspn(bits, "0123456789");
  long number = strtol(bits, NULL, 10);
  if (digits < 1 || digits > 3 || bits[digits] || number > network->bits) return false;
  network->bits = (int)number;
  return true;
}

bool proxies_read(const char *text, struct proxies *proxies) {
  *proxies = (struct proxies){0};
  const char *end = text + strlen(text);
  bool none = text == end;
  for (char item[ADDRESS_SIZE + 4]; value_next(&text, end, item, sizeof item);)
    if (strcmp(item, "unix") == 0)
      proxies->unix_sockets = true;
    else if (proxies->count == PROXIES_MAX || !read_network(item, &proxies->networks[proxies->count++]))
      return false;
  return none || value_ended(text, end);
}

static bool is_within(const struct network *address, const struct network *network) {
  if (address->family != network->family) return false;
  int bytes = network->bits / 8, rest = network->bits % 8;
  if (memcmp(address->address, network->address, (size_t)bytes) != 0) return false;
  return !rest || (address->address[bytes] ^ network->address[bytes]) >> (8 - rest) == 0;
}

static bool have(const struct proxies *proxies, const struct network *address) {
  for (int i = 0; i < proxies->count; i++)
    if (is_within(address, &proxies->networks[i])) return true;
  return false;
}

bool proxies_have(const struct proxies *proxies, const char *address) {
  struct network read;
  if (strncmp(address, "unix:", strlen("unix:")) == 0) return proxies->unix_sockets;
  return proxies->count > 0 && read_address(address, &read) && have(proxies, &read);
}

// Reads an entry of X-Forwarded-For: an address, perhaps with a port. An IPv6 address with a port must be in brackets.
static bool read_hop(const char *text, size_t length, struct network *address) {
  char hop[ADDRESS_SIZE];
  while (length && strchr(" \t", text[length - 1])) length--;
  while (length && strchr(" \t", *text)) text++, length--;
  if (length >= sizeof hop) return false;
  memcpy(hop, text, length);
  hop[length] = '\0';
  char *first = strchr(hop, ':');
  if (hop[0] == '[') {
    char *end = strchr(hop, ']');
    if (!end || (end[1] && end[1] != ':')) return false;
    *end = '\0';
    return read_address(hop + 1, address);
  }
  if (first && !strchr(first + 1, ':')) *first = '\0';
  return read_address(hop, address);
}

// Walks a line of X-Forwarded-For from its end, while the addresses are trusted proxies. `client` becomes the address
// read last; `*found`: it is not a trusted proxy. False if an entry is not an address.
static bool walk_back(const struct proxies *proxies, const char *line, struct network *client, bool *found) {
  const char *end = line + strlen(line), *begin;
  do {
    for (begin = end; begin > line && begin[-1] != ','; begin--) continue;
    if (!read_hop(begin, (size_t)(end - begin), client)) return false;
    *found = !have(proxies, client);
    end = begin - 1;  // its comma
  } while (begin > line && !*found);
  return true;
}

bool proxies_client(const struct proxies *proxies, const char *const *lines, int count, char client[ADDRESS_SIZE]) {
  struct network address;
  bool found = false;
  for (int i = count - 1; i >= 0 && !found; i--)
    if (!walk_back(proxies, lines[i], &address, &found)) return false;
  return count > 0 && inet_ntop(address.family, address.address, client, ADDRESS_SIZE) != NULL;
}
