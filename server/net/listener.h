// The listening sockets: TCP, Unix domain, and those that systemd hands over.
//
// Opened by main before any client is served, closed by it after the last.
#ifndef VOXELD_LISTENER_H
#define VOXELD_LISTENER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "kernels/kernels.h"
#include "server/base/address.h"

enum { LISTENERS_MAX = 8 };

struct listener {
  int fd;  // -1 once another owns it
  bool tcp;
  bool handed_over;   // systemd has it too
  char address[128];  // ADDRESS:PORT as bound, or unix:PATH
  char path[108];     // of a Unix socket that was made here, else ""
  dev_t device;       // which file that was
  ino_t inode;
};

struct listeners {
  int count;
  struct listener at[LISTENERS_MAX];
};

struct listen_rules {
  unsigned unix_mode;  // permissions of Unix sockets
  bool may_expose;     // TCP beyond loopback is allowed
};

// Opens what `list` names, with commas between: ADDRESS:PORT, [IPV6]:PORT, unix:PATH or systemd. Of a name's several
// addresses the first that can be bound is taken. False with a reason, and nothing is open then.
VX_WARN_UNUSED bool listeners_open(struct listeners *listeners, const char *list, const struct listen_rules *rules,
                                   char *error, size_t error_size);
// The same as far as it goes without binding or listening.
VX_WARN_UNUSED bool listeners_check(const char *list, const struct listen_rules *rules, char *error, size_t error_size);
// Closes the descriptors that are still owned and removes the paths of Unix sockets, unless another file is there by
// now.
void listeners_close(struct listeners *listeners);

// Connects to the first that `list` names, as a client on the same machine does. `*tcp` tells what it is; what takes
// longer than `timeout_s`, a later read or write too, fails. A blocking descriptor, or -1 with a reason.
VX_WARN_UNUSED int listener_connect(const char *list, int timeout_s, bool *tcp, char *error, size_t error_size);

// Who is at the other end of an accepted connection: an IP address (an IPv4 one that IPv6 wraps as itself), or
// unix:UID.
void listener_peer(int fd, char address[ADDRESS_SIZE]);

#endif
