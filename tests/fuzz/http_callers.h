// The clients of fuzz_http.c: their connections, and the bytes sent and received. One thread.
#ifndef VOXELD_TESTS_HTTP_CALLERS_H
#define VOXELD_TESTS_HTTP_CALLERS_H

#include "tests/fuzz/http_daemons.h"

enum { MOST_CALLERS = 6, MOST_REQUESTS = 1 << 20, MOST_ANSWERS = 16 << 20 };

struct caller {
  int fd;
  struct far_end far;
  gnutls_session_t tls;  // NULL: no TLS
  bool secure;           // the handshake is done
  bool raw;              // bytes are sent and received outside TLS
  bool finished;         // nothing more is sent
  bool gone;             // the client has closed without reading
  bool ended;            // the daemon has closed
  char *requests, *answers;
  size_t sent, received;
};

struct callers {
  int count;
  struct caller at[MOST_CALLERS];
};

// Connects to the place; unless it is PLACE_UNIX, over TCP from 127.0.0.NUMBER. A TLS client does the handshake when it
// first sends bytes; if `number` is even, it shows its certificate.
struct caller *callers_open(struct callers *callers, enum place place, int number);
// Sends the bytes, unless the caller has finished or is gone. Meanwhile all callers receive.
void callers_send(struct callers *callers, struct caller *caller, const char *bytes, size_t size);
// Waits until the daemon has read all bytes of this caller; at most 100 ms, since the daemon may first need bytes of
// another connection.
void callers_await_taken(struct callers *callers, struct caller *caller);
// Finishes sending.
void caller_finish(struct caller *caller);
// Closes the connection without reading; if it is TCP, by a reset.
void caller_leave(struct caller *caller);
// Receives until the daemons have closed every connection.
void callers_take_all(struct callers *callers);
void callers_close(struct callers *callers);

#endif
