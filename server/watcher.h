// The watcher: one thread that sees what the HTTP library does not.
//
// libmicrohttpd in epoll mode never notices a client that closes in mid-upload (the end of file hides behind the last data and no
// new edge comes), has only an inactivity timeout (a byte a second keeps a request alive), and closes a connection so abruptly after an
// early answer that a client still sending loses the answer. The watcher keeps an epoll set of its own over all connections and
//   - pokes the library (SHUT_RD makes a new edge) while it expects more from a half-closed connection,
//   - fails uploads that are late or too slow, with a 408 that the client can read, and ends heads that come byte by byte,
//   - ends answers that their client takes too slowly,
//   - reads on for a moment after an early answer (a lingering close),
//   - finds out whether a client that has finished sending is gone or waits for its answer, and lets the queue drop what needs no
//     run any more,
//   - lets connections in by their clients' shares: where there are too many, the longest idle one goes.
//
// A peer is one connection. IO threads open and close peers and move their phase; the watcher moves it only from UPLOAD or IDLE to
// FAILED, by compare-and-swap, so that one side wins, and for a moment from JOB to PROBED and back. A peer's slot is found by file descriptor and its event checked by generation.
#ifndef VOXELD_WATCHER_H
#define VOXELD_WATCHER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/problem.h"
#include "kernels/kernels.h"
#include "server/clients.h"
#include "server/trace.h"

enum peer_phase {
  PEER_IDLE,    // between requests
  PEER_UPLOAD,  // a body is due
  PEER_HELD,    // a body is due, but not read now
  PEER_JOB,     // the body is here: the job waits or runs
  PEER_PROBED,  // the same, while the watcher writes to the socket
  PEER_REPLY,   // the answer is being sent
  PEER_FAILED,  // ended from here, without TLS with an error written straight to the socket: nothing more is answered
};

struct tls_session;

struct peer {
  int fd;
  char address[64];           // whose: an IP address, or unix:UID
  struct tls_session *tls;    // NULL without TLS
  uint32_t generation;        // of the slot, so that an event for an earlier connection is known as such
  atomic_int phase;           // enum peer_phase
  atomic_bool gone;           // the client cannot read an answer any more
  struct client *client;      // of that address
  bool counted;               // in the client's connections; under the watcher's lock
  atomic_llong since_ns;      // when the upload, the reply or the idleness began
  char request_id[129];       // of the upload
  struct trace trace;         // likewise
  bool takes_interim;         // HTTP/1.1: a 100 Continue may come at any time before the answer
  atomic_llong received;      // bytes of the body so far
  bool head_open;             // the IO thread's: a request's first line is here, its headers are not
  bool asked;                 // likewise: a request has come
  bool turned_away;           // likewise: but there was no memory for it
  bool probed;                // the watcher's; the rest under its lock
  enum problem_kind failure;  // what it was told in phase FAILED
  bool open;
  bool half_closed;  // the client has sent its end of file
  bool refused;      // beside the connections that may be open
  bool linger;       // read on after the close
  bool cut_off;      // its client did not take an answer in time
};

// Why a connection ended, as far as that is known.
enum peer_end {
  PEER_END_USUAL,         // after its last answer, by either side
  PEER_END_IDLE_TIMEOUT,  // nothing came, or a request's head only byte by byte
  PEER_END_UPLOAD,        // a body came too slowly, or went on without end
  PEER_END_SEND_TIMEOUT,  // an answer was not taken in time
  PEER_END_HEAD,          // in a request's head: the client left, or the library gave it up
  PEER_END_NO_REQUEST,    // before any request: no HTTP, a failed TLS handshake, a look at the port
  PEER_END_NO_ROOM,       // there was no memory or no descriptor for it
  PEER_END_MADE_ROOM,     // idle for long, when there were too many
  PEER_END_OVER_SHARE,    // its client had its share of connections
  PEER_END_FULL,          // there were as many as there may be
  PEER_ENDS
};
const char *peer_end_name(enum peer_end end);

struct watcher_limits {
  int64_t idle_timeout_ns;  // between requests, the head of the next one included
  int64_t upload_timeout_ns;
  int64_t send_timeout_ns;
  int64_t upload_min_rate;  // bytes a second; 0 = any
};

struct lingering {
  int fd;
  bool shut;  // its reading side was shut from here
  int64_t until_ns;
  int64_t bytes_left;
};
enum { LINGER_SLOTS = 256, REFUSED_PEERS = 256 };  // beside the connections that may be open

struct watcher {
  pthread_t thread;
  pthread_mutex_t lock;
  int epoll_fd, stop_fd;
  struct watcher_limits limits;
  struct peer *peers;             // [peer_count], by file descriptor
  size_t peer_count, peers_used;  // slots ever used are below peers_used
  struct lingering lingering[LINGER_SLOTS];
  int lingering_count, refused_count;
  atomic_llong connections;
  struct clients *clients;
  atomic_llong ended[PEER_ENDS];            // connections, since the start
  void (*tick)(void *cls, int64_t now_ns);  // called about every 50 ms, on the watcher's thread, without its lock
  void *tick_cls;
};

VX_WARN_UNUSED bool watcher_start(struct watcher *watcher, const struct watcher_limits *limits, struct clients *clients,
                                  void (*tick)(void *cls, int64_t now_ns), void *tick_cls, char *error,
                                  size_t error_size);
void watcher_halt(struct watcher *watcher);     // ends the thread: nothing ticks any more
void watcher_destroy(struct watcher *watcher);  // after the HTTP library has closed every connection

// Whether it was ended from here: nothing more is answered.
bool peer_is_failed(const struct peer *peer);
// A connection was accepted: its peer, or NULL where it cannot be watched. `address` is copied. Where its client has its share of
// connections the peer may be in phase FAILED already.
struct peer *watcher_opened(struct watcher *watcher, int fd, const char *address, struct tls_session *tls);
// Before the library closes the descriptor.
void watcher_closed(struct watcher *watcher, struct peer *peer);

// The headers of a request are here, its body is due from now on. False if the connection was ended from here.
VX_WARN_UNUSED bool peer_upload_begin(struct peer *peer, const char *request_id, const struct trace *trace,
                                      bool takes_interim, int64_t now_ns);
// It is not read for a while; on with it (false if the watcher has ended the connection).
void peer_upload_hold(struct peer *peer);
VX_WARN_UNUSED bool peer_upload_go_on(struct peer *peer, int64_t now_ns);
void peer_upload_progress(struct peer *peer, size_t bytes);
// The body is here, or no longer wanted. False if the watcher has failed the upload: nothing may be answered.
VX_WARN_UNUSED bool peer_upload_end(struct peer *peer);
// The answer is about to be sent.
void peer_reply_begin(struct peer *peer, int64_t now_ns);
// It is sent, or cannot be.
void peer_reply_end(struct peer *peer, int64_t now_ns);

// Ends the upload in the middle: writes the problem straight to the socket, but not into a TLS stream, which just ends. The caller then lets the library close the connection.
void peer_fail(struct watcher *watcher, struct peer *peer, enum problem_kind kind, const char *detail);
// Why peer_fail or the watcher has ended the upload; PROBLEM_NONE where nothing failed.
enum problem_kind peer_failure(struct watcher *watcher, const struct peer *peer);
// After an early answer: read on for a while once the library closes.
void peer_linger(struct watcher *watcher, struct peer *peer);

#endif
