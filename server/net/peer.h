// One connection, as the I/O threads and the watcher share it.
//
// The phase is the state of the connection and of its request. The I/O thread of the connection opens and closes its
// peer and moves its phase. While another thread owns the request (at the gate, or with its job), the connection is
// suspended. Other threads make four moves, with the watcher's lock and by compare-and-swap, so that one side wins:
// - IDLE or UPLOAD to FAILED: the connection ends,
// - UPLOAD to PREEMPTED: the upload loses its reservation (jobs/uploads.h), and then PREEMPTED to FAILED,
// - UPLOAD or HELD to PREEMPTED and back, if no part of the body has arrived,
// - WHOLE or JOB to PROBED and back.
// The end of all connections sets FAILED in any phase.
#ifndef VOXELD_PEER_H
#define VOXELD_PEER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "api/base/problem.h"
#include "kernels/kernels.h"
#include "server/base/base.h"
#include "server/base/trace.h"
#include "server/clients/clients.h"
#include "server/net/listener.h"

enum peer_phase {
  PEER_IDLE,       // between requests, or a request's headers are examined
  PEER_UPLOAD,     // a body is due
  PEER_HELD,       // a body is due, but is not read now: the request is at the gate
  PEER_LOCKED,     // a body is due, and its I/O thread uses what is reserved for it
  PEER_PREEMPTED,  // the upload loses its reservation: it is refused, or goes on if no part of the body has come
  PEER_WHOLE,      // the body has arrived; the request starts at the library's next call, perhaps after the gate
  PEER_JOB,        // the job waits or runs, or its result is ready
  PEER_PROBED,     // WHOLE or JOB, while the watcher writes to the socket
  PEER_REPLY,      // the answer is being sent
  PEER_RESTING,    // the answer is not over, but has nothing to send now
  PEER_FAILED,     // ended by the server, with or without an error written to the socket
};

enum peer_end {
  PEER_END_USUAL,         // after its last answer, by either side
  PEER_END_IDLE_TIMEOUT,  // nothing came, or a request's head only byte by byte
  PEER_END_UPLOAD,        // a body was too slow, too long or malformed, or incomplete when the time to drain was over
  PEER_END_SEND_TIMEOUT,  // the client did not take an answer in time
  PEER_END_HEAD,          // in a request's head: the client left, or the library gave up the head
  PEER_END_NO_REQUEST,    // before any request: no HTTP, a failed TLS handshake, a port scan
  PEER_END_NO_ROOM,       // there was no memory or no descriptor for it
  PEER_END_PREEMPTED,     // its body or answer was the slowest when memory or connections ran short
  PEER_END_MADE_ROOM,     // idle when there were too many connections, or open when the server stopped
  PEER_END_OVER_SHARE,    // refused: its client had its share of connections
  PEER_END_FULL,          // refused: there were max_connections
  PEER_ENDS
};
const char *peer_end_name(enum peer_end end);  // as in the metrics

// How fast bytes move: the rate of the last window, or of the present window if that is higher. So a pause of half a
// second does not count as slow. The owner locks it.
#define PACE_WINDOW_NS (500 * NS_PER_MS)
#define PACE_LEAST_NS (50 * NS_PER_MS)  // a shorter time counts as this long
#define PACE_SLOW (128 * 1024)          // bytes a second; slower bodies and answers make room for others

struct pace {
  int64_t since_ns, bytes;  // when the present window began, and the bytes before it
  double rate;              // bytes a second in the window before
  bool is_known;            // there was an earlier window
};

static inline void pace_begin(struct pace *pace, int64_t bytes, int64_t now_ns) {
  *pace = (struct pace){.since_ns = now_ns, .bytes = bytes};
}

// Bytes a second. `bytes`: moved in all.
static inline double pace_rate(const struct pace *pace, int64_t bytes, int64_t now_ns) {
  int64_t elapsed_ns = now_ns - pace->since_ns > PACE_LEAST_NS ? now_ns - pace->since_ns : PACE_LEAST_NS;
  double rate = (double)(bytes - pace->bytes) * (double)NS_PER_S / (double)elapsed_ns;
  return rate > pace->rate ? rate : pace->rate;
}

// Call it several times in each window.
static inline void pace_note(struct pace *pace, int64_t bytes, int64_t now_ns) {
  int64_t elapsed_ns = now_ns - pace->since_ns;
  if (elapsed_ns < PACE_WINDOW_NS) return;
  double rate = (double)(bytes - pace->bytes) * (double)NS_PER_S / (double)elapsed_ns;
  *pace = (struct pace){now_ns, bytes, rate, true};
}

struct buffer;
struct request;
struct tls_session;

// The detail of the problem for a preempted upload.
#define PREEMPTED "the body came more slowly than others, which now have its memory"

// Any thread may read the atomic fields.
struct upload {
  atomic_llong bytes;               // of the body that have arrived, before any decoding
  atomic_llong expected;            // of the whole body; 0: unknown
  _Atomic(struct client *) client;  // whose shares the reservation counts towards
  atomic_int use;                   // enum vx_lane_use: the lanes of its job, by its headers
  atomic_llong memory;              // bytes of `input`
  atomic_bool slot_reserved;        // in the queue
  struct buffer *input;             // of the I/O thread; in phase PREEMPTED, of the thread with the watcher's lock
};

struct peer {
  int fd;
  char address[ADDRESS_SIZE];  // an IP address, or unix:UID
  bool proxy;                  // a trusted proxy: its X-Forwarded-For is believed
  struct tls_session *tls;     // NULL without TLS
  uint32_t generation;         // of the slot: tells events of an earlier connection apart
  atomic_int phase;            // enum peer_phase
  atomic_bool gone;            // the client cannot read an answer any more
  atomic_bool half_closed;     // the client has sent its end of file
  struct listener_group *group;
  struct client *client;     // of this address
  bool counted;              // in the client's connections; under the watcher's lock
  atomic_llong since_ns;     // when the upload, the answer or the idle time began, or a held upload went on
  atomic_llong since_bytes;  // upload.bytes at that time
  struct upload upload;
  char request_id[129];      // of the upload
  enum problem_style style;  // of the upload: how problems are written for its client
  struct trace trace;        // of the upload
  bool takes_interim;        // HTTP/1.1: a 100 Continue may come at any time before the answer
  atomic_llong answer;       // bytes of memory that the answer takes, while it is sent
  // Members of the I/O thread.
  bool head_open;           // a request's first line has arrived, its headers have not
  const char *target_end;   // the end of the target in that line, in the library's memory
  bool asked;               // a request has arrived
  struct request *request;  // the memory of its requests; NULL before the first
  bool turned_away;         // there was no memory for a request
  // Members of the watcher, under its lock.
  bool probed;              // a 100 Continue was sent
  struct pace pace;         // of the present body or answer
  int64_t paced_since_ns;   // when that body or answer began
  enum error_kind failure;  // why it is in phase FAILED; ERROR_NONE if it made room or the server stops
  bool open;
  bool refused;       // kept open in addition to max_connections, so that its client can read the refusal
  bool linger;        // the close is a lingering one
  enum peer_end cut;  // why the server ended its answer or upload; PEER_END_USUAL: it did not
};

// False if the peer is not in phase `from`.
static inline bool peer_move(struct peer *peer, int from, int to) {
  return atomic_compare_exchange_strong(&peer->phase, &from, to);
}
static inline bool peer_is_failed(const struct peer *peer) { return atomic_load(&peer->phase) == PEER_FAILED; }
// For the I/O thread. Waits for the end of a probe, which is one system call.
int peer_phase(const struct peer *peer);
// Whether the socket has bytes that the library has not read. Takes none of them.
bool peer_has_unread(const struct peer *peer);

// The headers of a request have arrived, and its body is due. False if the server has ended the connection.
VX_WARN_UNUSED bool peer_upload_begin(struct peer *peer, const char *request_id, enum problem_style style,
                                      const struct trace *trace, bool takes_interim, int64_t now_ns);
// Until connection_go_on, the body is not read and its time limits do not hold.
void peer_upload_hold(struct peer *peer);
// The body is whole or was discarded, and nothing is reserved. False if the upload was failed: nothing may be answered.
VX_WARN_UNUSED bool peer_upload_end(struct peer *peer);
// The job is about to run or to be submitted.
void peer_job_begin(struct peer *peer);
// The answer, which holds `bytes` of memory, is about to be sent.
void peer_reply_begin(struct peer *peer, int64_t bytes, int64_t now_ns);
// All of the answer so far was sent (rest); its next part is ready (go_on).
void peer_reply_rest(struct peer *peer);
void peer_reply_go_on(struct peer *peer, int64_t now_ns);
// The answer was sent, or the request ended without one.
void peer_reply_end(struct peer *peer, int64_t now_ns);

// Call the following functions with the watcher's lock held.

// Call it several times in each PACE_WINDOW_NS.
void peer_note_rate(struct peer *peer, int64_t now_ns);
// Whether a body or an answer has been moving for a second.
bool peer_rate_is_known(const struct peer *peer, int64_t now_ns);
// Bytes a second.
double peer_rate(const struct peer *peer, int64_t now_ns);

// Notes the problem as the peer's failure. Without TLS, also writes it straight to the socket as an HTTP answer: the
// send buffer is empty before an answer, so the short text goes out whole or not at all.
void peer_write_failure(struct peer *peer, enum error_kind kind, const char *detail);
// Finds out whether a client that has finished sending has left: sends it 100 Continue, once for each request and not
// with TLS. A client of HTTP/1.1 ignores it; the host of a client that has left answers with a reset.
void peer_probe(struct peer *peer);

#endif
