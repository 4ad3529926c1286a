// See tls.h.
#include "server/clients/tls.h"

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "api/base/file.h"

enum {
  SUM = 32,
  LONGEST_NAME = 59,      // "cert:" and a name of this length fit USER_SIZE
  LARGEST_FILE = 4 << 20  // a bundle of all public authorities is much smaller
};

struct credentials {
  atomic_int references;  // one for `current` and one for each connection
  gnutls_certificate_credentials_t x509;
};

struct tls_session {
  struct tls *tls;
  gnutls_session_t gnutls;
  struct credentials *credentials;
  bool verified;  // the members below are for these credentials
  enum tls_client client;
  time_t expires;
  char text[192];
};

// ---- credentials ----------------------------------------------------------------------------------------------------

static void release(struct credentials *credentials) {
  if (!credentials || atomic_fetch_sub(&credentials->references, 1) > 1) return;
  gnutls_certificate_free_credentials(credentials->x509);
  free(credentials);
}

static struct credentials *take_current(struct tls *tls) {
  lock_acquire(&tls->lock);
  struct credentials *credentials = atomic_load(&tls->current);
  atomic_fetch_add(&credentials->references, 1);
  lock_release(&tls->lock);
  return credentials;
}

static bool fail(struct error *error, const char *what, const char *path, const char *why) {
  return error_set(error, "%s %s: %s", what, path, why);
}

enum { CERT, KEY, CLIENT_CA, FILES };

static gnutls_datum_t datum_of(const struct file *file) {
  return (gnutls_datum_t){(unsigned char *)file->bytes, (unsigned)file->size};
}

static bool use_files(gnutls_certificate_credentials_t x509, const struct file files[FILES],
                      const struct options *options, struct error *error) {
  gnutls_datum_t cert = datum_of(&files[CERT]), key = datum_of(&files[KEY]), client_ca = datum_of(&files[CLIENT_CA]);
  int code = gnutls_certificate_set_x509_key_mem2(x509, &cert, &key, GNUTLS_X509_FMT_PEM, NULL, 0);
  if (code < 0) return fail(error, "tls_cert and tls_key", options->tls_cert, gnutls_strerror(code));
  if (!client_ca.data) return true;
  code = gnutls_certificate_set_x509_trust_mem(x509, &client_ca, GNUTLS_X509_FMT_PEM);
  return code > 0 || fail(error, "tls_client_ca", options->tls_client_ca,
                          code < 0 ? gnutls_strerror(code) : "there is no certificate in it");
}

static bool load_files(gnutls_certificate_credentials_t x509, const struct options *options, struct error *error) {
  const struct {
    const char *option, *path;
  } wanted[FILES] = {[CERT] = {"tls_cert", options->tls_cert},
                     [KEY] = {"tls_key", options->tls_key},
                     [CLIENT_CA] = {"tls_client_ca", options->tls_client_ca}};
  struct file files[FILES] = {{NULL, 0, false}};
  bool good = true;
  for (int i = 0; good && i < FILES; i++)
    if (wanted[i].path[0]) good = file_read(wanted[i].option, wanted[i].path, LARGEST_FILE, &files[i], error);
  good = good && use_files(x509, files, options, error);
  for (int i = 0; i < FILES; i++) file_release(&files[i]);
  return good;
}

static struct credentials *load(const struct options *options, struct error *error) {
  struct credentials *credentials = malloc(sizeof *credentials);
  if (!credentials || gnutls_certificate_allocate_credentials(&credentials->x509) != 0) {
    free(credentials);
    (void)fail(error, "tls_cert", options->tls_cert, "out of memory");
    return NULL;
  }
  atomic_init(&credentials->references, 1);
  if (load_files(credentials->x509, options, error)) return credentials;
  release(credentials);
  return NULL;
}

static bool check_priorities(const char *text, struct error *error) {
  gnutls_priority_t priorities;
  const char *at = text;
  int code = gnutls_priority_init(&priorities, text, &at);
  if (code == 0) gnutls_priority_deinit(priorities);
  return code == 0 || fail(error, "tls_priorities", at, gnutls_strerror(code));
}

bool tls_init(struct tls *tls, const struct options *options, struct error *error) {
  struct credentials *credentials = NULL;
  if (!check_priorities(options->tls_priorities, error)) return false;
  if (options->tls_cert[0] && !(credentials = load(options, error))) return false;
  atomic_init(&tls->current, credentials);
  tls->asks_clients = options->tls_client_ca[0] != '\0';
  lock_init(&tls->lock);
  return true;
}

bool tls_reload(struct tls *tls, const struct options *options, struct error *error) {
  struct credentials *credentials = load(options, error);
  if (!credentials) return false;
  lock_acquire(&tls->lock);
  struct credentials *old = atomic_exchange(&tls->current, credentials);
  lock_release(&tls->lock);
  release(old);
  return true;
}

void tls_end(struct tls *tls) {
  release(atomic_load(&tls->current));
  lock_end(&tls->lock);
}

// ---- sessions -------------------------------------------------------------------------------------------------------

struct tls_session *tls_session_open(struct tls *tls, void *gnutls_session) {
  struct tls_session *session = malloc(sizeof *session);
  if (!session) return NULL;
  *session = (struct tls_session){.tls = tls, .gnutls = gnutls_session, .credentials = take_current(tls)};
  if (gnutls_credentials_set(session->gnutls, GNUTLS_CRD_CERTIFICATE, session->credentials->x509) != 0) {
    tls_session_refuse(session);
    return NULL;
  }
  // Requests a certificate without requiring it, so that a client without a good certificate gets an answer.
  gnutls_certificate_server_set_request(session->gnutls, tls->asks_clients ? GNUTLS_CERT_REQUEST : GNUTLS_CERT_IGNORE);
  return session;
}

void tls_session_close(struct tls_session *session) {
  if (session) release(session->credentials);
  free(session);
}

void tls_session_refuse(struct tls_session *session) {
  if (session) gnutls_credentials_clear(session->gnutls);
  tls_session_close(session);
}

// Gives the session the current credentials. False if out of memory.
static bool refresh(struct tls_session *session) {
  // The session keeps its credentials alive, so no others have their address.
  if (session->credentials == atomic_load(&session->tls->current)) return true;
  struct credentials *current = take_current(session->tls);
  bool set = gnutls_credentials_set(session->gnutls, GNUTLS_CRD_CERTIFICATE, current->x509) == 0;
  release(set ? session->credentials : current);
  if (!set) return false;
  session->credentials = current;
  session->verified = false;
  return true;
}

// ---- clients --------------------------------------------------------------------------------------------------------

// Whether the text can be a user's name: only visible ASCII, and short enough not to be cut.
static bool is_name(const char *text, size_t length) {
  if (length == 0 || length > LONGEST_NAME) return false;
  for (size_t i = 0; i < length; i++)
    if (text[i] <= ' ' || text[i] > '~') return false;
  return true;
}

static bool alternative_name(gnutls_x509_crt_t certificate, char *name, size_t room) {
  for (unsigned i = 0;; i++) {
    size_t size = room;
    int type = gnutls_x509_crt_get_subject_alt_name(certificate, i, name, &size, NULL);
    if (type == GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE) return false;
    bool is_text = type == GNUTLS_SAN_DNSNAME || type == GNUTLS_SAN_URI || type == GNUTLS_SAN_RFC822NAME;
    if (!is_text || !is_name(name, size)) continue;
    name[size] = '\0';
    return true;
  }
}

static bool common_name(gnutls_x509_crt_t certificate, char *name, size_t room) {
  size_t size = room;
  if (gnutls_x509_crt_get_dn_by_oid(certificate, GNUTLS_OID_X520_COMMON_NAME, 0, 0, name, &size) != 0) return false;
  name[size] = '\0';
  return is_name(name, size);
}

// For a certificate without a usable name: half of its SHA-256.
static bool fingerprint(gnutls_x509_crt_t certificate, char *name) {
  unsigned char sum[SUM];
  size_t size = sizeof sum;
  if (gnutls_x509_crt_get_fingerprint(certificate, GNUTLS_DIG_SHA256, sum, &size) != 0) return false;
  for (size_t i = 0; i < SUM / 2; i++) snprintf(name + 2 * i, 3, "%02x", sum[i]);
  return true;
}

static bool read_certificate(struct tls_session *session, const gnutls_datum_t *der) {
  gnutls_x509_crt_t certificate;
  char name[512];
  size_t room = sizeof name - 1;
  if (gnutls_x509_crt_init(&certificate) != 0) return false;
  bool read = gnutls_x509_crt_import(certificate, der, GNUTLS_X509_FMT_DER) == 0 &&
              (alternative_name(certificate, name, room) || common_name(certificate, name, room) ||
               fingerprint(certificate, name));
  session->expires = read ? gnutls_x509_crt_get_expiration_time(certificate) : 0;
  gnutls_x509_crt_deinit(certificate);
  if (read) snprintf(session->text, sizeof session->text, "cert:%.*s", LONGEST_NAME, name);
  return read;
}

static enum tls_client wrong(struct tls_session *session, const char *why) {
  snprintf(session->text, sizeof session->text, "%s", why);
  return TLS_CLIENT_WRONG;
}

static enum tls_client verify(struct tls_session *session) {
  static unsigned char purpose[] = GNUTLS_KP_TLS_WWW_CLIENT;
  gnutls_typed_vdata_st wanted = {.type = GNUTLS_DT_KEY_PURPOSE_OID, .data = purpose};
  unsigned count = 0, status = 0;
  gnutls_datum_t text;
  session->text[0] = '\0';
  const gnutls_datum_t *chain = gnutls_certificate_get_peers(session->gnutls, &count);
  if (!chain || count == 0) return TLS_CLIENT_UNNAMED;
  int code = gnutls_certificate_verify_peers(session->gnutls, &wanted, 1, &status);
  if (code < 0) return wrong(session, gnutls_strerror(code));
  if (status == 0)
    return read_certificate(session, &chain[0]) ? TLS_CLIENT_NAMED : wrong(session, "The certificate cannot be read.");
  if (gnutls_certificate_verification_status_print(status, GNUTLS_CRT_X509, &text, 0) != 0)
    return wrong(session, "The certificate is NOT trusted.");
  (void)wrong(session, (const char *)text.data);
  gnutls_free(text.data);
  size_t length = strlen(session->text);
  if (length && session->text[length - 1] == ' ') session->text[length - 1] = '\0';
  return TLS_CLIENT_WRONG;
}

enum tls_client tls_client(struct tls_session *session, const char **text) {
  *text = session->text;
  if (!session->tls->asks_clients) return TLS_CLIENT_UNNAMED;
  if (!refresh(session)) return wrong(session, "There is no memory to verify it.");
  if (session->verified && session->client == TLS_CLIENT_NAMED && time(NULL) > session->expires)
    session->verified = false;
  if (!session->verified) session->client = verify(session);
  session->verified = true;
  return session->client;
}
