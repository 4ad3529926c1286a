// Who may use the service. With token_file or tls_client_ca, a request needs a token or a client certificate, unless
// allow_anonymous is yes. A Unix socket takes only tokens: without token_file, a request there needs no credentials.
//
// I/O threads search the tokens while the thread of reloads replaces them.
#ifndef VOXELD_ACCESS_H
#define VOXELD_ACCESS_H

#include <pthread.h>
#include <stdbool.h>

#include "api/base/problem.h"
#include "server/clients/tls.h"
#include "server/clients/tokens.h"

enum { USER_SIZE = 65 };  // of a user's name, its NUL included

struct access {
  pthread_rwlock_t lock;  // guards `tokens`
  struct tokens *tokens;  // NULL if there is no token_file
  bool takes_tokens;      // there is a token_file
  bool anonymous;         // clients without credentials are let in
  struct tls tls;
};

// Loads the tokens and certificates that the options name. False with a reason; then nothing is held.
VX_WARN_UNUSED bool access_open(struct access *access, const struct options *options, struct error *error);
void access_close(struct access *access);

// Loads the token file again; token_file must be set. False with a reason; then nothing changes.
VX_WARN_UNUSED bool access_reload_tokens(struct access *access, const struct options *options, struct error *error);

// False if the user (see access_check) had a token that was removed.
bool access_knows(struct access *access, const char *user);

// Whether the service may listen beyond loopback: clients need credentials, or allow_anonymous is yes.
bool access_may_expose(const struct access *access);

struct credential {
  int count;                 // Authorization headers
  const char *value;         // of the first header; NULL: there is none
  struct tls_session *peer;  // of the request's connection; NULL without TLS
};
// Sets `user` to the token's NAME, to "cert:NAME" for a certificate, or to "" without credentials. With a token_file, a
// wrong Authorization header is refused even if the certificate is good. False with an error.
VX_WARN_UNUSED bool access_check(struct access *access, const struct credential *credential, char user[USER_SIZE],
                                 struct error *error);

// The WWW-Authenticate header of an answer with this problem; NULL: none.
const char *access_challenge(enum error_kind kind);

#endif
