// See http_daemons.h.
#include "tests/fuzz/http_daemons.h"

#include <arpa/inet.h>
#include <assert.h>
#include <gnutls/x509.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "server/base/log.h"
#include "server/daemon/daemon.h"

enum { PLAIN, TLS, DAEMONS };
static struct service services[DAEMONS];
static char directory[] = "/tmp/voxeld-fuzz-XXXXXX";
static char socket_path[64], cert_path[64], key_path[64];
static gnutls_certificate_credentials_t credentials[2];

// ---- the certificate ------------------------------------------------------------------------------------------------

static void write_pem(const char *path, const gnutls_datum_t *pem) {
  FILE *file = fopen(path, "w");
  assert(file && fwrite(pem->data, 1, pem->size, file) == pem->size && fclose(file) == 0);
}

// Makes the self-signed certificate that the daemon and named clients show. It is also their authority.
static void make_certificate(void) {
  gnutls_x509_privkey_t key;
  gnutls_x509_crt_t cert;
  gnutls_datum_t pem;
  time_t now = time(NULL);
  assert(gnutls_x509_privkey_init(&key) == 0 && gnutls_x509_crt_init(&cert) == 0);
  assert(gnutls_x509_privkey_generate(key, GNUTLS_PK_ECDSA, GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0) == 0);
  assert(gnutls_x509_crt_set_version(cert, 3) == 0 && gnutls_x509_crt_set_serial(cert, "\1", 1) == 0);
  assert(gnutls_x509_crt_set_dn_by_oid(cert, GNUTLS_OID_X520_COMMON_NAME, 0, "fuzz", 4) == 0);
  assert(gnutls_x509_crt_set_activation_time(cert, now - 3600) == 0);
  assert(gnutls_x509_crt_set_expiration_time(cert, now + 365 * 86400) == 0);
  assert(gnutls_x509_crt_set_basic_constraints(cert, 1, -1) == 0 && gnutls_x509_crt_set_key(cert, key) == 0);
  assert(gnutls_x509_crt_sign2(cert, cert, key, GNUTLS_DIG_SHA256, 0) == 0);
  assert(gnutls_x509_crt_export2(cert, GNUTLS_X509_FMT_PEM, &pem) == 0);
  write_pem(cert_path, &pem);
  gnutls_free(pem.data);
  assert(gnutls_x509_privkey_export2(key, GNUTLS_X509_FMT_PEM, &pem) == 0);
  write_pem(key_path, &pem);
  gnutls_free(pem.data);
  for (int named = 0; named < 2; named++) assert(gnutls_certificate_allocate_credentials(&credentials[named]) == 0);
  assert(gnutls_certificate_set_x509_key(credentials[true], &cert, 1, key) >= 0);
  gnutls_x509_crt_deinit(cert);
  gnutls_x509_privkey_deinit(key);
}

gnutls_certificate_credentials_t daemons_credentials(bool named) { return credentials[named]; }

// ---- start and stop -------------------------------------------------------------------------------------------------

static void on_gpu_lost(void *cls) { (void)cls; }

// Runs at exit, before the sanitizer looks for leaks.
static void stop_daemons(void) {
  for (int i = 0; i < DAEMONS; i++) {
    atomic_store(&services[i].phase, PHASE_DRAINING);
    assert(drain(&services[i]));
    service_stop(&services[i]);
  }
  log_stop();
  for (int named = 0; named < 2; named++) gnutls_certificate_free_credentials(credentials[named]);
  assert(unlink(cert_path) == 0 && unlink(key_path) == 0 && rmdir(directory) == 0);
}

static void read_options(struct service *service, char *const own[], int own_count) {
  static char *const common[] = {"voxeld",   "--backend",
                                 "cpu",      "--workers",
                                 "1",        "--long-workers",
                                 "1",        "--log-level",
                                 "error",    "--allow-anonymous",
                                 "yes",      "--max-connections",
                                 "8",        "--queue-depth",
                                 "4",        "--client-requests",
                                 "1",        "--max-body-bytes",
                                 "262144",   "--max-response-bytes",
                                 "524288",   "--memory-budget-bytes",
                                 "1048576",  "--max-sampling-work",
                                 "1000000",  "--trusted-proxies",
                                 "127.0.0.4"};
  enum { COMMON = sizeof common / sizeof *common };
  char *arguments[COMMON + 8] = {NULL}, *none[] = {NULL};
  struct error error = {0};
  enum options_action action;
  assert(own_count <= 8);
  memcpy(arguments, common, sizeof common);
  memcpy(arguments + COMMON, own, (size_t)own_count * sizeof *own);
  if (options_read(COMMON + own_count, arguments, none, &service->options, &action, &error)) return;
  fprintf(stderr, "%s\n", error.text);
  abort();
}

static void start(struct service *service) {
  struct error error;
  service->started_ns = clock_ns();
  if (service_prepare(service, &error) && service_start(service, on_gpu_lost, &error)) return;
  fprintf(stderr, "%s\n", error.text);
  abort();
}

void daemons_need(void) {
  struct error error = {0};
  char listen[128];
  if (services[PLAIN].daemons[0].daemon) return;
  assert(mkdtemp(directory));
  snprintf(socket_path, sizeof socket_path, "%s/socket", directory);
  snprintf(cert_path, sizeof cert_path, "%s/cert.pem", directory);
  snprintf(key_path, sizeof key_path, "%s/key.pem", directory);
  snprintf(listen, sizeof listen, "unix:%s,127.0.0.1:0", socket_path);
  make_certificate();
  char *plain[] = {"--listen", listen, "--pages-listen", "127.0.0.1:0"};
  char *tls[] = {"--listen",  "127.0.0.1:0", "--tls-cert",      cert_path,
                 "--tls-key", key_path,      "--tls-client-ca", cert_path};
  read_options(&services[PLAIN], plain, sizeof plain / sizeof *plain);
  read_options(&services[TLS], tls, sizeof tls / sizeof *tls);
  log_configure((enum log_level)services[PLAIN].options.log_level, (enum log_format)services[PLAIN].options.log_format);
  signal(SIGPIPE, SIG_IGN);
  assert(log_start(&error));
  for (int i = 0; i < DAEMONS; i++) start(&services[i]);
  atexit(stop_daemons);
}

static struct service *service_of(enum place place) { return &services[place == PLACE_TLS ? TLS : PLAIN]; }

socklen_t daemons_address(enum place place, struct sockaddr_storage *address) {
  struct sockaddr_un *name = (struct sockaddr_un *)address;
  struct sockaddr_in *tcp = (struct sockaddr_in *)address;
  *address = (struct sockaddr_storage){.ss_family = place == PLACE_UNIX ? AF_UNIX : AF_INET};
  if (place == PLACE_UNIX) {
    strcpy(name->sun_path, socket_path);
    return sizeof *name;
  }
  const struct service *service = service_of(place);
  const char *text = place == PLACE_PAGES ? service->pages_address : service->address;  // ends with :PORT
  tcp->sin_port = htons((uint16_t)atoi(strrchr(text, ':') + 1));
  tcp->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return sizeof *tcp;
}

// ---- state ----------------------------------------------------------------------------------------------------------

static int64_t held_by_clients(struct clients *clients) {
  struct clients_use use = clients_use(clients);
  int64_t held = use.present;
  for (int share = 0; share < SHARES; share++) held += use.held[share];
  return held;
}

static bool is_quiet(struct service *service) {
  const struct request_counts *requests = &service->requests;
  return held_by_clients(&service->clients) == 0 && held_by_clients(&service->page_clients) == 0 &&
         atomic_load(&requests->open) == 0 && atomic_load(&requests->active) == 0 &&
         atomic_load(&service->gate.waiting) == 0 && atomic_load(&service->watcher.group.open) == 0 &&
         atomic_load(&service->watcher.page_group.open) == 0 && service->jobs.buffers.in_use == 0;
}

void daemons_await_quiet(void) {
  int64_t until_ns = clock_ns() + patience_ns;
  for (int i = 0; i < DAEMONS; i++)
    for (; !is_quiet(&services[i]); sched_yield()) assert(clock_ns() < until_ns);
}

bool far_end_find(struct far_end *end, enum place place, int fd) {
  struct watcher *watcher = &service_of(place)->watcher;
  struct sockaddr_storage own, other;
  socklen_t own_length = sizeof own, length;
  bool found = false;
  assert(getsockname(fd, (struct sockaddr *)&own, &own_length) == 0);
  lock_acquire(&watcher->lock);
  for (size_t i = 0; i < watcher->peers_used && !found; i++) {
    const struct peer *peer = &watcher->peers[i];
    if (!peer->open) continue;
    length = sizeof other;
    found = getpeername(peer->fd, (struct sockaddr *)&other, &length) == 0 && length == own_length &&
            memcmp(&own, &other, length) == 0;
    if (found) *end = (struct far_end){place, peer->fd, peer->generation};
  }
  lock_release(&watcher->lock);
  return found;
}

// The watcher's lock keeps libmicrohttpd from closing the descriptor of an open peer.
int far_end_unread(const struct far_end *end) {
  struct watcher *watcher = &service_of(end->place)->watcher;
  int unread = 0;
  lock_acquire(&watcher->lock);
  const struct peer *peer = &watcher->peers[end->fd];
  if (peer->open && peer->generation == end->generation) assert(ioctl(end->fd, FIONREAD, &unread) == 0);
  lock_release(&watcher->lock);
  return unread;
}
