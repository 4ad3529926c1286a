// TLS: the server's certificate, and the names in clients' certificates. The HTTP library does handshakes and records.
//
// Each new connection gets the credentials that were loaded last; the HTTP library by itself would keep the first. A
// client's certificate is verified at the first request that needs it, and again after a reload or once it has expired.
//
// A session belongs to the I/O thread of its connection, and keeps its credentials alive. The thread of reloads
// replaces the current credentials.
#ifndef VOXELD_TLS_H
#define VOXELD_TLS_H

#include <stdatomic.h>
#include <stdbool.h>

#include "kernels/kernels.h"
#include "server/base/lock.h"
#include "server/config/options.h"

struct credentials;

struct tls {
  struct lock lock;                       // held to take a reference to `current`, or to replace it
  _Atomic(struct credentials *) current;  // NULL: no TLS
  bool asks_clients;                      // for certificates: tls_client_ca is set
};

// Loads the files of the options; none if tls_cert is not set. False with a reason.
VX_WARN_UNUSED bool tls_init(struct tls *tls, const struct options *options, struct error *error);
// Loads the same files again; tls_cert must be set. False with a reason; then nothing changes.
VX_WARN_UNUSED bool tls_reload(struct tls *tls, const struct options *options, struct error *error);
void tls_end(struct tls *tls);  // after the last session

struct tls_session;

// Gives the GnuTLS session of a new connection the current credentials, before the handshake. NULL: out of memory.
struct tls_session *tls_session_open(struct tls *tls, void *gnutls_session);
void tls_session_close(struct tls_session *session);  // after GnuTLS's session; NULL is fine
// Removes the credentials from the GnuTLS session, so that the handshake fails, and closes `session`.
void tls_session_refuse(struct tls_session *session);  // NULL is fine

enum tls_client {
  TLS_CLIENT_UNNAMED,  // without a certificate, or not asked for one
  TLS_CLIENT_NAMED,
  TLS_CLIENT_WRONG,  // its certificate does not verify
};
// Sets `*text` to the client's name ("cert:" and up to 59 bytes without blanks), or to what is wrong with its
// certificate. The text is valid until the next call.
enum tls_client tls_client(struct tls_session *session, const char **text);

#endif
