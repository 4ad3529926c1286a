// See http_callers.h.
#include "tests/fuzz/http_callers.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

static char requests[MOST_CALLERS][MOST_REQUESTS], answers[MOST_CALLERS][MOST_ANSWERS];
static const int64_t moment_ns = 100 * NS_PER_MS;  // two ticks of the watcher

// ---- bytes ----------------------------------------------------------------------------------------------------------

static bool speaks_tls(const struct caller *caller) { return caller->tls && !caller->raw; }

// `receive` and `give` return what gnutls_record_recv and gnutls_record_send return. GNUTLS_E_AGAIN: try later.
static ssize_t receive(struct caller *caller, char *into, size_t room) {
  if (speaks_tls(caller)) return gnutls_record_recv(caller->tls, into, room);
  ssize_t got = recv(caller->fd, into, room, 0);
  return got >= 0 ? got : errno == EAGAIN ? GNUTLS_E_AGAIN : GNUTLS_E_PULL_ERROR;
}

static ssize_t give(struct caller *caller, const char *bytes, size_t size) {
  if (speaks_tls(caller)) return gnutls_record_send(caller->tls, bytes, size);
  ssize_t given = send(caller->fd, bytes, size, MSG_NOSIGNAL);
  return given >= 0 ? given : errno == EAGAIN ? GNUTLS_E_AGAIN : GNUTLS_E_PUSH_ERROR;
}

static void take(struct caller *caller) {
  while (!caller->ended && !caller->gone && (!speaks_tls(caller) || caller->secure)) {
    assert(caller->received < MOST_ANSWERS);
    ssize_t got = receive(caller, caller->answers + caller->received, MOST_ANSWERS - caller->received);
    if (got == GNUTLS_E_AGAIN) return;
    caller->ended = got == 0 || (got < 0 && gnutls_error_is_fatal((int)got));
    caller->received += got > 0 ? (size_t)got : 0;
  }
}

static void take_from_each(struct callers *callers) {
  for (int i = 0; i < callers->count; i++) take(&callers->at[i]);
  sched_yield();
}

// ---- connect --------------------------------------------------------------------------------------------------------

static int connect_from(enum place place, int number) {
  struct sockaddr_storage address;
  socklen_t length = daemons_address(place, &address);
  struct sockaddr_in source = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK - 1 + (uint32_t)number)};
  const sa_family_t any_name = AF_UNIX;  // the kernel chooses the name, by which far_end_find finds the connection
  int on = 1, fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert(fd >= 0);
  if (place == PLACE_UNIX) {
    assert(bind(fd, (const struct sockaddr *)&any_name, sizeof any_name) == 0);
  } else {
    assert(setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on) == 0);
    assert(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0);
    assert(bind(fd, (struct sockaddr *)&source, sizeof source) == 0);
  }
  assert(connect(fd, (struct sockaddr *)&address, length) == 0 && fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
  return fd;
}

static void begin_tls(struct caller *caller, bool named) {
  assert(gnutls_init(&caller->tls, GNUTLS_CLIENT | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL) == 0);
  assert(gnutls_set_default_priority(caller->tls) == 0);
  assert(gnutls_credentials_set(caller->tls, GNUTLS_CRD_CERTIFICATE, daemons_credentials(named)) == 0);
  gnutls_transport_set_int(caller->tls, caller->fd);
}

struct caller *callers_open(struct callers *callers, enum place place, int number) {
  assert(callers->count < MOST_CALLERS);
  int index = callers->count++;
  struct caller *caller = &callers->at[index];
  *caller = (struct caller){
      .fd = connect_from(place, number), .requests = requests[index], .answers = answers[index], .far.fd = -1};
  int64_t until_ns = clock_ns() + patience_ns;
  while (!far_end_find(&caller->far, place, caller->fd) && !caller->ended) {
    take_from_each(callers);
    assert(clock_ns() < until_ns);
  }
  if (place == PLACE_TLS) begin_tls(caller, number % 2 == 0);
  return caller;
}

// A handshake that fails ends the connection.
static void shake_hands(struct callers *callers, struct caller *caller) {
  int64_t until_ns = clock_ns() + patience_ns;
  while (speaks_tls(caller) && !caller->secure && !caller->ended) {
    int code = gnutls_handshake(caller->tls);
    caller->secure = code == 0;
    caller->ended = code < 0 && gnutls_error_is_fatal(code);
    take_from_each(callers);
    assert(clock_ns() < until_ns);
  }
}

// ---- talk -----------------------------------------------------------------------------------------------------------

void callers_send(struct callers *callers, struct caller *caller, const char *bytes, size_t size) {
  int64_t until_ns = clock_ns() + patience_ns;
  if (caller->finished || caller->gone || size == 0) return;
  shake_hands(callers, caller);
  while (size && !caller->ended) {
    ssize_t given = give(caller, bytes, size);
    if (given < 0 && given != GNUTLS_E_AGAIN) return;  // the daemon has closed; its last answer may still be there
    if (given > 0) {
      assert(caller->sent + (size_t)given <= MOST_REQUESTS);
      memcpy(caller->requests + caller->sent, bytes, (size_t)given);
      caller->sent += (size_t)given;
      bytes += given;
      size -= (size_t)given;
    }
    take_from_each(callers);
    assert(clock_ns() < until_ns);
  }
}

// fuzz_http.c also calls this before it ends a connection: if the end came with data, libmicrohttpd would miss it until
// the watcher reports it, which takes too long for a fuzzer.
void callers_await_taken(struct callers *callers, struct caller *caller) {
  for (int64_t until_ns = clock_ns() + moment_ns; clock_ns() < until_ns;) {
    take_from_each(callers);
    if (caller->finished || caller->gone || caller->ended || caller->far.fd < 0) return;
    if (far_end_unread(&caller->far) == 0) return;
  }
}

// ---- end ------------------------------------------------------------------------------------------------------------

void caller_finish(struct caller *caller) {
  if (caller->finished || caller->gone) return;
  caller->finished = true;
  if (speaks_tls(caller) && caller->secure && !caller->ended) (void)gnutls_bye(caller->tls, GNUTLS_SHUT_WR);
  // Without a handshake, the daemon can send an alert, which is read as raw bytes.
  if (speaks_tls(caller) && !caller->secure) caller->raw = true;
  (void)shutdown(caller->fd, SHUT_WR);  // fails if the daemon has reset the connection
}

void caller_leave(struct caller *caller) {
  const struct linger reset = {.l_onoff = 1};
  if (caller->gone) return;
  caller->gone = true;
  (void)setsockopt(caller->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  close(caller->fd);
}

static bool all_ended(const struct callers *callers) {
  for (int i = 0; i < callers->count; i++)
    if (!callers->at[i].ended && !callers->at[i].gone) return false;
  return true;
}

void callers_take_all(struct callers *callers) {
  for (int64_t until_ns = clock_ns() + patience_ns; !all_ended(callers); take_from_each(callers))
    assert(clock_ns() < until_ns);
}

void callers_close(struct callers *callers) {
  for (int i = 0; i < callers->count; i++) {
    if (callers->at[i].tls) gnutls_deinit(callers->at[i].tls);
    if (!callers->at[i].gone) close(callers->at[i].fd);
  }
  callers->count = 0;
}
