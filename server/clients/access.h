// Who may enter: a request needs a token of token_file or a client certificate of tls_client_ca, where the operator
// gave either.
//
// The tokens are reloaded by main while IO threads look into them: a reload reads and parses without the lock and holds
// it only to put the new table in the old one's place.
#ifndef VOXELD_ACCESS_H
#define VOXELD_ACCESS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "api/base/problem.h"
#include "server/clients/tls.h"
#include "server/clients/tokens.h"

enum { USER_SIZE = 65 };  // of a user's name, its NUL included

struct access {
  pthread_rwlock_t lock;  // over `tokens`
  struct tokens *tokens;  // NULL where there is no token_file
  bool takes_tokens;      // there is one
  bool anonymous;         // who shows nothing is let in
  struct tls tls;
};

// Loads the tokens and certificates that the options name. False with a reason, and nothing is held then.
VX_WARN_UNUSED bool access_open(struct access *access, const struct options *options, char *error, size_t error_size);
void access_close(struct access *access);

// Loads the token file again; there is one. False with a reason: then nothing has changed.
VX_WARN_UNUSED bool access_reload_tokens(struct access *access, const struct options *options, char *error,
                                         size_t error_size);

// Whether TCP clients elsewhere may be served: they need credentials, or are expressly not to.
bool access_may_expose(const struct access *access);

// What a request shows of itself.
struct credential {
  int count;                 // Authorization headers
  const char *value;         // of the last; NULL without one
  struct tls_session *peer;  // its connection's; NULL without TLS
};
// Whether it may enter: `user` becomes the token's NAME, "cert:NAME" of the certificate, or "" where nobody has to say.
// False with a problem. A token counts before a certificate, and a wrong one is not made good by a certificate.
VX_WARN_UNUSED bool access_check(struct access *access, const struct credential *credential, char user[USER_SIZE],
                                 struct problem *problem);

// The WWW-Authenticate header of an answer with this problem; NULL where it has none.
const char *access_challenge(enum problem_kind kind);

#endif
