// The listening socket: TCP on a numeric address, or a Unix domain socket.
#ifndef VOXELD_LISTENER_H
#define VOXELD_LISTENER_H

#include <stddef.h>

// Opens what `where` names: ADDRESS:PORT, [IPV6]:PORT or unix:PATH. Writes the bound address (with the port that 0 became) to
// `address`. The descriptor, or -1 with a reason.
int listener_open(const char *where, char *address, size_t address_size, char *error, size_t error_size);
// Who is at the other end of an accepted connection: an IP address (an IPv4 one that IPv6 wraps as itself), or unix:UID.
void listener_peer(int fd, char *address, size_t address_size);
// Closes `fd` unless it is negative, and removes a Unix socket's path.
void listener_close(const char *where, int fd);

#endif
