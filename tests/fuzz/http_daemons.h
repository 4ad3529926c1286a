// The two daemons that fuzz_http.c runs in its process, without and with TLS. Their limits are so low that a few
// connections reach them. One thread calls these functions.
#ifndef VOXELD_TESTS_HTTP_DAEMONS_H
#define VOXELD_TESTS_HTTP_DAEMONS_H

#include <gnutls/gnutls.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "server/base/base.h"

enum place { PLACE_UNIX, PLACE_TCP, PLACE_PAGES, PLACE_TLS };  // where a daemon listens

// Longer than a correct daemon waits, even in a lingering close.
static const int64_t patience_ns = 20 * NS_PER_S;

// Starts the daemons at the first call. They stop at exit.
void daemons_need(void);
// Writes the address of a place. Returns its length.
socklen_t daemons_address(enum place place, struct sockaddr_storage *address);
// The credentials of a client of PLACE_TLS, with a certificate if `named`. The daemons own them.
gnutls_certificate_credentials_t daemons_credentials(bool named);
// Waits until no client has a connection, a request, a buffer or a share.
void daemons_await_quiet(void);

// The daemon's end of a connection.
struct far_end {
  enum place place;
  int fd;
  uint32_t generation;
};
// Finds the daemon's end of the client's connection `fd`. False: the daemon has not accepted it yet, or has closed it.
bool far_end_find(struct far_end *end, enum place place, int fd);
// The number of received bytes that the daemon has not read yet; 0 if it has closed the connection.
int far_end_unread(const struct far_end *end);

#endif
