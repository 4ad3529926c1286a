// TLS: the server's certificate, and whom a client's certificate names. The library does the handshakes and the
// records.
//
// The library takes one certificate for the life of a daemon, and only requests one of clients without looking at it.
// So each connection gets its credentials here when it begins, those of the files as last loaded, and a client's
// certificate is verified here, once a connection: at the first request that asks, and again after a reload or once it
// has expired. Sessions belong to the IO thread of their connection; loading is main's. A connection keeps the
// credentials that it holds alive.
#ifndef VOXELD_TLS_H
#define VOXELD_TLS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "kernels/kernels.h"
#include "server/config/options.h"

struct credentials;

struct tls {
  pthread_mutex_t lock;                   // held to take a reference to `current`, or to put another in its place
  _Atomic(struct credentials *) current;  // NULL = no TLS
  bool asks_clients;                      // for a certificate: there is a tls_client_ca
};

// Loads what the options name; nothing where they name no certificate. False with a reason.
VX_WARN_UNUSED bool tls_init(struct tls *tls, const struct options *options, char *error, size_t error_size);
// Loads the same files again; there are some. False with a reason: then nothing has changed.
VX_WARN_UNUSED bool tls_reload(struct tls *tls, const struct options *options, char *error, size_t error_size);
void tls_destroy(struct tls *tls);  // after the last session

struct tls_session;

// A connection begins: gives its GnuTLS session its credentials, before the handshake. NULL: out of memory.
struct tls_session *tls_session_open(struct tls *tls, void *gnutls_session);
void tls_session_close(struct tls_session *session);  // after that of GnuTLS; NULL is fine
// The connection is not to be served: leaves its GnuTLS session without credentials, so that the handshake fails, and
// closes.
void tls_session_refuse(struct tls_session *session);  // NULL is fine

enum tls_client {
  TLS_CLIENT_UNNAMED,  // showed no certificate, or was not asked for one
  TLS_CLIENT_NAMED,
  TLS_CLIENT_WRONG,  // its certificate does not verify
};
// Who the client is: `*text` becomes its name, "cert:" and up to 59 bytes without blanks, or what is wrong. Valid until
// the next call.
enum tls_client tls_client(struct tls_session *session, const char **text);

#endif
