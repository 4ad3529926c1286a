// One connection, as the IO threads and the watcher share it.
//
// IO threads open and close peers and move their phase; the watcher moves it only from UPLOAD or IDLE to FAILED, by
// compare-and-swap, so that one side wins, and for a moment from JOB to PROBED and back.
#ifndef VOXELD_PEER_H
#define VOXELD_PEER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/base/problem.h"
#include "kernels/kernels.h"
#include "server/base/pace.h"
#include "server/base/trace.h"
#include "server/clients/clients.h"
#include "server/net/listener.h"

enum peer_phase {
  PEER_IDLE,    // between requests
  PEER_UPLOAD,  // a body is due
  PEER_HELD,    // a body is due, but not read now
  PEER_JOB,     // the body is here: the job waits or runs
  PEER_PROBED,  // the same, while the watcher writes to the socket
  PEER_REPLY,   // the answer is being sent
  PEER_FAILED,  // ended from here, without TLS with an error written straight to the socket: nothing more is answered
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
  PEER_END_OUTPACED,      // its body or answer was the slowest, when memory or connections ran short
  PEER_END_MADE_ROOM,     // idle for long, when there were too many
  PEER_END_OVER_SHARE,    // its client had its share of connections
  PEER_END_FULL,          // there were as many as there may be
  PEER_ENDS
};

struct request;
struct tls_session;

struct peer {
  int fd;
  char address[ADDRESS_SIZE];  // whose: an IP address, or unix:UID
  bool proxy;                  // it is believed about whom it asks for
  struct tls_session *tls;     // NULL without TLS
  uint32_t generation;         // of the slot, so that an event for an earlier connection is known as such
  atomic_int phase;            // enum peer_phase
  atomic_bool gone;            // the client cannot read an answer any more
  struct client *client;       // of that address
  bool counted;                // in the client's connections; under the watcher's lock
  atomic_llong since_ns;       // when the upload, the reply or the idleness began
  char request_id[129];        // of the upload
  struct trace trace;          // likewise
  bool takes_interim;          // HTTP/1.1: a 100 Continue may come at any time before the answer
  atomic_llong received;       // bytes of the body so far
  atomic_llong answer;         // bytes of memory that the answer takes, while it is sent
  atomic_bool outpaced;        // the upload gave up its memory to a faster one
  bool head_open;              // the IO thread's: a request's first line is here, its headers are not
  bool asked;                  // likewise: a request has come
  struct request *request;     // likewise: it is not completed yet
  bool turned_away;            // likewise: but there was no memory for it
  bool probed;                 // the watcher's; the rest under its lock
  struct pace pace;            // of the body that comes or the answer that goes,
  int64_t paced_since_ns;      // which began then
  enum problem_kind failure;   // what it was told in phase FAILED
  bool open;
  bool half_closed;   // the client has sent its end of file
  bool refused;       // beside the connections that may be open
  bool linger;        // read on after the close
  enum peer_end cut;  // why it was ended from here in mid-answer or mid-upload; PEER_END_USUAL: it was not
};

const char *peer_end_name(enum peer_end end);

// By compare-and-swap: false where it is in another phase.
bool peer_move(struct peer *peer, int from, int to);
// Whether it was ended from here: nothing more is answered.
bool peer_is_failed(const struct peer *peer);

// The headers of a request are here, its body is due from now on. False if the connection was ended from here.
VX_WARN_UNUSED bool peer_upload_begin(struct peer *peer, const char *request_id, const struct trace *trace,
                                      bool takes_interim, int64_t now_ns);
// It is not read for a while; on with it (false if the watcher has ended the connection).
void peer_upload_hold(struct peer *peer);
VX_WARN_UNUSED bool peer_upload_go_on(struct peer *peer, int64_t now_ns);
void peer_upload_progress(struct peer *peer, size_t bytes);
// The body is here, or no longer wanted. False if the watcher has failed the upload: nothing may be answered.
VX_WARN_UNUSED bool peer_upload_end(struct peer *peer);
// The answer, of `bytes` of memory, is about to be sent.
void peer_reply_begin(struct peer *peer, int64_t bytes, int64_t now_ns);
// It is sent, or cannot be.
void peer_reply_end(struct peer *peer, int64_t now_ns);

// The rest with the watcher's lock held.

// Ends what the peer does with an error that is written straight to its socket, if it is without TLS. Before an answer
// the send buffer is empty, so the short text goes out whole or not at all.
void peer_write_failure(struct peer *peer, enum problem_kind kind, const char *detail);
// A client that has finished sending has left, or waits for its answer; nothing tells which. So it is sent what any
// client of HTTP/1.1 overlooks, and the host of one that has left answers that with a reset.
void peer_probe(struct peer *peer);

#endif
