// See access.h.
#include "server/clients/access.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "server/base/log.h"

static struct tokens *load_tokens(const struct options *options, struct error *error) {
  bool exposed;
  struct tokens *tokens = tokens_load(options->token_file, &exposed, error);
  if (!tokens) return NULL;
  if (exposed) log_event(LOG_WARNING, "the token file is readable by everybody", "file", options->token_file);
  if (tokens_count(tokens) == 0) log_event(LOG_WARNING, "the token file has no tokens", "file", options->token_file);
  return tokens;
}

bool access_open(struct access *access, const struct options *options, struct error *error) {
  access->anonymous = options->allow_anonymous;
  access->takes_tokens = options->token_file[0] != '\0';
  access->tokens = access->takes_tokens ? load_tokens(options, error) : NULL;
  if (access->takes_tokens && !access->tokens) return false;
  if (!tls_init(&access->tls, options, error)) {
    tokens_close(access->tokens);
    return false;
  }
  pthread_rwlock_init(&access->lock, NULL);
  return true;
}

void access_close(struct access *access) {
  pthread_rwlock_destroy(&access->lock);
  tls_end(&access->tls);
  tokens_close(access->tokens);
}

bool access_reload_tokens(struct access *access, const struct options *options, struct error *error) {
  struct tokens *tokens = load_tokens(options, error);
  if (!tokens) return false;
  pthread_rwlock_wrlock(&access->lock);
  struct tokens *old = access->tokens;
  access->tokens = tokens;
  pthread_rwlock_unlock(&access->lock);
  tokens_close(old);
  return true;
}

// The name of a token has no colon, unlike the name of a certificate's user.
bool access_knows(struct access *access, const char *user) {
  if (!user[0] || strchr(user, ':') || !access->takes_tokens) return true;
  pthread_rwlock_rdlock(&access->lock);
  bool known = tokens_have_name(access->tokens, user);
  pthread_rwlock_unlock(&access->lock);
  return known;
}

bool access_may_expose(const struct access *access) {
  return access->anonymous || access->takes_tokens || access->tls.asks_clients;
}

// The token after "Bearer" and blanks; NULL: there is none.
static const char *token_of(const char *authorization) {
  static const char scheme[] = "Bearer";
  size_t length = strlen(scheme);
  if (strncasecmp(authorization, scheme, length) != 0 || authorization[length] != ' ') return NULL;
  return authorization + length + strspn(authorization + length, " ");
}

static bool check_token(struct access *access, const char *authorization, char user[USER_SIZE], struct error *error) {
  const char *token = token_of(authorization);
  if (!token)
    return error_refuse(error, ERROR_INVALID_TOKEN, NULL, "the Authorization header is not of the form Bearer TOKEN");
  pthread_rwlock_rdlock(&access->lock);
  const char *name = tokens_find(access->tokens, token);
  if (name) snprintf(user, USER_SIZE, "%s", name);
  pthread_rwlock_unlock(&access->lock);
  return name || error_refuse(error, ERROR_INVALID_TOKEN, NULL, "the token is unknown or has been removed");
}

bool access_check(struct access *access, const struct credential *credential, char user[USER_SIZE],
                  struct error *error) {
  bool takes_tokens = access->takes_tokens, takes_certificates = credential->peer && access->tls.asks_clients;
  const char *text = "";
  user[0] = '\0';
  if (credential->count > 1)
    return error_refuse(error, ERROR_BAD_REQUEST, NULL, "there is more than one Authorization header; allowed: one");
  if (takes_tokens && credential->value) return check_token(access, credential->value, user, error);
  switch (takes_certificates ? tls_client(credential->peer, &text) : TLS_CLIENT_UNNAMED) {
    case TLS_CLIENT_NAMED: snprintf(user, USER_SIZE, "%s", text); return true;
    case TLS_CLIENT_WRONG:
      return error_refuse(error, ERROR_FORBIDDEN, NULL, "the client certificate does not verify: %s", text);
    case TLS_CLIENT_UNNAMED: break;
  }
  if (access->anonymous || (!takes_tokens && !takes_certificates)) return true;
  return error_refuse(
      error, ERROR_UNAUTHORIZED, NULL, "show %s%s%s", takes_tokens ? "a token (Authorization: Bearer TOKEN)" : "",
      takes_tokens && takes_certificates ? " or " : "", takes_certificates ? "a client certificate" : "");
}

const char *access_challenge(enum error_kind kind) {
  if (kind == ERROR_UNAUTHORIZED) return "Bearer realm=\"voxeld\"";
  if (kind == ERROR_INVALID_TOKEN) return "Bearer realm=\"voxeld\", error=\"invalid_token\"";
  return NULL;
}
