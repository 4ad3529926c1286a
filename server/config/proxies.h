// The proxies that are believed about whom they ask for: option trusted_proxies.
//
// Read by main before any client is served; any thread looks into them.
#ifndef VOXELD_PROXIES_H
#define VOXELD_PROXIES_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/kernels.h"
#include "server/base/address.h"

enum { PROXIES_MAX = 64 };

// The first `bits` bits of an address.
struct network {
  int family;  // AF_INET or AF_INET6
  int bits;
  unsigned char address[16];
};

struct proxies {
  int count;
  bool unix_sockets;  // whoever comes by one is believed
  struct network networks[PROXIES_MAX];
};

// Addresses, networks ADDRESS/BITS and the word unix, with commas between; "" is nobody. False where it is anything
// else.
VX_WARN_UNUSED bool proxies_read(const char *text, struct proxies *proxies);

// `address` as listener_peer writes it.
bool proxies_have(const struct proxies *proxies, const char *address);

// Of the addresses in X-Forwarded-For, to which each proxy adds the one that it was asked from, the last that is not
// such a proxy's own; the header's lines are one list. False, and `client` as it was, where there is none or it is no
// address.
VX_WARN_UNUSED bool proxies_client(const struct proxies *proxies, const char *const *lines, int count,
                                   char client[ADDRESS_SIZE]);

#endif
