// The listening sockets: TCP sockets, Unix sockets, and sockets from systemd.
//
// The daemon opens them before any client is served, and closes them after the last client.
#ifndef VOXELD_LISTENER_H
#define VOXELD_LISTENER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include "kernels/kernels.h"
#include "server/base/base.h"

enum { LISTENERS_MAX = 8, LISTENER_LISTS = 2 };  // listeners in a list; lists: --listen and --pages-listen

struct clients;

// The listeners that serve everything, or those that serve only pages. The connections of one group use up no room of
// the other.
struct listener_group {
  bool pages;               // they serve only pages
  struct clients *clients;  // who share the connections
  atomic_llong coming;      // accepted, but no I/O thread has them yet
  atomic_llong open;        // connections
  int64_t none_until_ns;    // until then connections.c does not search again for a connection that makes room
};

// Counts one less as coming: the connection has an I/O thread now, or is lost.
static inline void listener_group_came(struct listener_group *group) {
  long long coming = atomic_load(&group->coming);
  while (coming > 0 && !atomic_compare_exchange_weak(&group->coming, &coming, coming - 1)) continue;
}

struct listener {
  int fd;  // does not block; -1 if the list was only checked
  bool tcp;
  struct listener_group *group;
  char address[128];  // ADDRESS:PORT as bound, or unix:PATH
  char path[108];     // of a Unix socket that this process made, else ""
  dev_t device;       // identifies the file at `path`, with `inode`
  ino_t inode;
};

struct listeners {
  int count;
  struct listener at[LISTENERS_MAX * LISTENER_LISTS];
};

struct listen_rules {
  unsigned unix_mode;  // permissions of Unix sockets
  bool may_expose;     // TCP beyond loopback is allowed
  struct listener_group *group;
};

// Opens the items of `list`, separated by commas: ADDRESS:PORT, [IPV6]:PORT, unix:PATH or systemd. Adds them to
// `listeners`. Of several addresses of a name, takes the first that can be bound. False with a reason; then all of
// `listeners` are closed.
VX_WARN_UNUSED bool listeners_open(struct listeners *listeners, const char *list, const struct listen_rules *rules,
                                   struct error *error);
// Checks the list as far as possible without binding or listening. `checked` begins empty and collects the listeners of
// all lists, since no two may have the same address.
VX_WARN_UNUSED bool listeners_check(struct listeners *checked, const char *list, const struct listen_rules *rules,
                                    struct error *error);
// Closes the descriptors and removes the files of Unix sockets. Clients wait in a socket from systemd for the next
// process.
void listeners_close(struct listeners *listeners);

// Connects to the first item of `list`, as a client on the same machine does. The connect and each later read or write
// fail after `timeout_s` seconds. Returns a blocking descriptor, which the caller closes, or -1 with a reason.
VX_WARN_UNUSED int listener_connect(const char *list, int timeout_s, bool *tcp, struct error *error);

// Writes who is at the other end: an IP address (an IPv4-mapped IPv6 address as IPv4), unix:UID, or "unknown".
void listener_peer(int fd, char address[ADDRESS_SIZE]);
bool listener_is_exposed(const struct listener *listener);
// Whether the address, from listener_peer, is on loopback or a Unix socket.
bool address_is_local(const char *address);

#endif
