// See daemon.h.
#include "server/daemon/daemon.h"

#include <gnutls/gnutls.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/base/text.h"
#include "server/base/base.h"
#include "server/net/listener.h"

enum { TIMEOUT_S = 1 };  // for each step: connect, send, receive
static const char request[] = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
static const char good[] = "HTTP/1.1 200";  // the beginning of an answer, up to its status code

static bool ask_plain(int fd, char answer[sizeof good], struct error *error) {
  if (send(fd, request, strlen(request), MSG_NOSIGNAL) == (ssize_t)strlen(request) &&
      recv(fd, answer, strlen(good), MSG_WAITALL) == (ssize_t)strlen(good))
    return true;
  return error_set(error, "/healthz is not answered within %d s", TIMEOUT_S);
}

// 0, or the error code of GnuTLS.
static int exchange(gnutls_session_t session, char answer[sizeof good]) {
  int code = gnutls_handshake(session);
  if (code < 0) return code;
  ssize_t count = gnutls_record_send(session, request, strlen(request));
  if (count < 0) return (int)count;
  int64_t until_ns = clock_ns() + TIMEOUT_S * NS_PER_S;
  for (size_t length = 0; length < strlen(good);) {
    count = gnutls_record_recv(session, answer + length, strlen(good) - length);
    if (count == GNUTLS_E_AGAIN && clock_ns() < until_ns)
      continue;  // a message of TLS itself, such as a session ticket
    if (count <= 0) return count < 0 ? (int)count : GNUTLS_E_PREMATURE_TERMINATION;
    length += (size_t)count;
  }
  return 0;
}

static bool ask_tls(int fd, const char *priorities, char answer[sizeof good], struct error *error) {
  gnutls_session_t session = NULL;
  gnutls_certificate_credentials_t none = NULL;
  int code = gnutls_init(&session, GNUTLS_CLIENT);
  if (code == 0) code = gnutls_certificate_allocate_credentials(&none);
  if (code == 0) code = gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, none);
  if (code == 0) code = gnutls_priority_set_direct(session, priorities, NULL);
  if (code == 0) {
    gnutls_transport_set_int(session, fd);
    code = exchange(session, answer);
  }
  if (session) gnutls_deinit(session);
  if (none) gnutls_certificate_free_credentials(none);
  return code == 0 || error_set(error, "/healthz is not answered over TLS: %s", gnutls_strerror(code));
}

bool probe(const struct options *options, struct error *error) {
  char answer[sizeof good] = "";
  bool tcp;
  const char *list = options->pages_listen[0] ? options->pages_listen : options->listen;
  int fd = listener_connect(list, TIMEOUT_S, &tcp, error);
  if (fd < 0) return false;
  bool answered =
      tcp && options->tls_cert[0] ? ask_tls(fd, options->tls_priorities, answer, error) : ask_plain(fd, answer, error);
  close(fd);
  if (!answered) return false;
  return strcmp(answer, good) == 0 || error_set(error, "/healthz is answered with '%s'", answer);
}
