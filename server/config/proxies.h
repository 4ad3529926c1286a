// The proxies whose X-Forwarded-For header is trusted: option trusted_proxies.
//
// Main reads the option before any client is served; any thread may look up addresses.
#ifndef VOXELD_PROXIES_H
#define VOXELD_PROXIES_H

#include <stdbool.h>

#include "kernels/kernels.h"
#include "server/base/base.h"

enum { PROXIES_MAX = 64 };

// A network: the first `bits` bits of an address.
struct network {
  int family;  // AF_INET or AF_INET6
  int bits;
  unsigned char address[16];
};

struct proxies {
  int count;
  bool unix_sockets;  // every peer of a Unix socket is trusted
  struct network networks[PROXIES_MAX];
};

// Reads addresses, networks ADDRESS/BITS and the word unix, separated by commas; "": none. False for any other text.
VX_WARN_UNUSED bool proxies_read(const char *text, struct proxies *proxies);

// Whether `address`, as listener_peer writes it, is a trusted proxy.
bool proxies_have(const struct proxies *proxies, const char *address);

// Writes the client's address: the right-most X-Forwarded-For address that is not a trusted proxy, or the left-most if
// all are. `lines`: the header's lines in their order, which are one list. False, with `client` unchanged, if there is
// no line, or if an entry on the way is not an address.
VX_WARN_UNUSED bool proxies_client(const struct proxies *proxies, const char *const *lines, int count,
                                   char client[ADDRESS_SIZE]);

#endif
