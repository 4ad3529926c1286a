// See peer.h.
#include "server/net/peer.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>

#include "server/base/base.h"

bool peer_has_unread(const struct peer *peer) {
  char next;
  return recv(peer->fd, &next, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

bool peer_upload_begin(struct peer *peer, const char *request_id, enum problem_style style, const struct trace *trace,
                       bool takes_interim, int64_t now_ns) {
  // In the phase IDLE, the watcher reads only the atomic ones of these members.
  peer->trace = *trace;
  snprintf(peer->request_id, sizeof peer->request_id, "%s", request_id);
  peer->style = style;
  peer->takes_interim = takes_interim;
  peer->probed = false;
  atomic_store(&peer->since_bytes, 0);
  atomic_store(&peer->since_ns, now_ns);
  return peer_move(peer, PEER_IDLE, PEER_UPLOAD);
}

// An upload without bytes is PREEMPTED only while another thread releases its reservation.
void peer_upload_hold(struct peer *peer) {
  int phase;
  do {
    phase = PEER_UPLOAD;
    if (atomic_compare_exchange_strong(&peer->phase, &phase, PEER_HELD)) return;
    clock_pause();
  } while (phase == PEER_PREEMPTED && !atomic_load(&peer->upload.bytes));
}

bool peer_upload_end(struct peer *peer) { return peer_move(peer, PEER_UPLOAD, PEER_WHOLE); }

int peer_phase(const struct peer *peer) {
  int phase;
  while ((phase = atomic_load(&peer->phase)) == PEER_PROBED) clock_pause();
  return phase;
}

// Moves from any phase but FAILED. During a probe nothing else may be written.
static void move_on(struct peer *peer, int to) {
  int phase;
  do phase = peer_phase(peer);
  while (phase != PEER_FAILED && !peer_move(peer, phase, to));
}

void peer_job_begin(struct peer *peer) { move_on(peer, PEER_JOB); }

void peer_reply_begin(struct peer *peer, int64_t bytes, int64_t now_ns) {
  atomic_store(&peer->answer, bytes);
  atomic_store(&peer->since_ns, now_ns);
  move_on(peer, PEER_REPLY);
}

void peer_reply_rest(struct peer *peer) { (void)peer_move(peer, PEER_REPLY, PEER_RESTING); }

void peer_reply_go_on(struct peer *peer, int64_t now_ns) {
  atomic_store(&peer->since_ns, now_ns);
  (void)peer_move(peer, PEER_RESTING, PEER_REPLY);
}

void peer_reply_end(struct peer *peer, int64_t now_ns) {
  atomic_store(&peer->since_ns, now_ns);
  move_on(peer, PEER_IDLE);
}

// ---- how fast -------------------------------------------------------------------------------------------------------

static const int64_t young_ns = 100 * NS_PER_MS;  // an answer's age before its rate is noted
static const int64_t grace_ns = 1 * NS_PER_S;     // before a rate is known
// Bytes a second that are assumed for every new body, so that a small body may come in pieces.
static const double first_rate = 64 * 1024;

// Bytes that the client has acknowledged, or -1 if the socket does not say: it is not TCP, or the kernel is old.
static int64_t acknowledged(int fd) {
  struct tcp_info info;
  socklen_t size = sizeof info;
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return -1;
  size_t needed = offsetof(struct tcp_info, tcpi_bytes_acked) + sizeof info.tcpi_bytes_acked;
  return size < needed ? -1 : (int64_t)info.tcpi_bytes_acked;
}

static bool is_answering(const struct peer *peer) { return atomic_load(&peer->phase) == PEER_REPLY; }

static bool is_moving(const struct peer *peer) {
  return atomic_load(&peer->phase) == PEER_UPLOAD || is_answering(peer);
}

static int64_t moved(const struct peer *peer) {
  return is_answering(peer) ? acknowledged(peer->fd) : atomic_load(&peer->upload.bytes);
}

// The pace of a body or answer that has just begun. A body that continues after a wait counts as fast at first.
static struct pace first_pace(const struct peer *peer, int64_t now_ns) {
  const struct upload *upload = &peer->upload;
  struct pace pace;
  int64_t bytes = atomic_load(&peer->since_bytes);
  if (is_answering(peer)) {
    pace_begin(&pace, moved(peer), now_ns);
  } else {
    pace_begin(&pace, bytes, atomic_load(&peer->since_ns));
    pace.rate = bytes ? (double)(atomic_load(&upload->expected) + atomic_load(&upload->memory)) : first_rate;
  }
  return pace;
}

static bool is_noted(const struct peer *peer) { return peer->paced_since_ns == atomic_load(&peer->since_ns); }

void peer_note_rate(struct peer *peer, int64_t now_ns) {
  int64_t since_ns = atomic_load(&peer->since_ns);
  if (!is_moving(peer) || (is_answering(peer) && now_ns - since_ns < young_ns)) return;
  if (!is_noted(peer)) peer->pace = first_pace(peer, now_ns);
  pace_note(&peer->pace, moved(peer), now_ns);
  peer->paced_since_ns = since_ns;
}

bool peer_rate_is_known(const struct peer *peer, int64_t now_ns) {
  return peer->open && is_moving(peer) && is_noted(peer) && now_ns - atomic_load(&peer->since_ns) >= grace_ns;
}

double peer_rate(const struct peer *peer, int64_t now_ns) {
  int64_t bytes = moved(peer);
  struct pace pace = is_noted(peer) ? peer->pace : first_pace(peer, now_ns);
  if (bytes >= 0) return pace_rate(&pace, bytes, now_ns);
  // The socket does not show the progress. Assumes that the client has taken all of the answer by now.
  int64_t elapsed_ns = now_ns - atomic_load(&peer->since_ns);
  return (double)atomic_load(&peer->answer) * (double)NS_PER_S / (double)(elapsed_ns > 0 ? elapsed_ns : 1);
}

// ---- written past the library ---------------------------------------------------------------------------------------

void peer_write_failure(struct peer *peer, enum error_kind kind, const char *detail) {
  struct error error;
  char body[PROBLEM_TEXT_SIZE], message[PROBLEM_TEXT_SIZE + 1024], traceparent[TRACEPARENT_LENGTH + 1];
  (void)error_refuse(&error, kind, NULL, "%s", detail);
  peer->failure = kind;
  if (peer->tls) return;  // only the library can write into a TLS stream, and it writes nothing now
  peer->linger = true;
  struct text text = text_over(body, sizeof body), out = text_over(message, sizeof message);
  problem_render(&error, peer->style, peer->request_id, &text);
  const struct problem_info *info = problem_info(kind);
  int status = problem_status(kind, peer->style);
  text_printf(&out, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\n", status, problem_phrase(status),
              problem_media_type(peer->style));
  trace_write(&peer->trace, traceparent);
  if (peer->request_id[0])  // "": the connection is refused before any request
    text_printf(&out, "X-Request-Id: %s\r\ntraceparent: %s\r\n", peer->request_id, traceparent);
  if (info->retry_after) text_printf(&out, "Retry-After: %d\r\n", info->retry_after);
  text_printf(&out, "Content-Length: %zu\r\nConnection: close\r\n\r\n%s", text.length, body);
  if (text_complete(&text) && text_complete(&out))
    (void)send(peer->fd, message, out.length, MSG_DONTWAIT | MSG_NOSIGNAL);
}

// In phase PROBED the I/O thread waits, so it does not change the members of the request.
void peer_probe(struct peer *peer) {
  static const char interim[] = "HTTP/1.1 100 Continue\r\n\r\n";
  int phase = atomic_load(&peer->phase);
  if ((phase != PEER_WHOLE && phase != PEER_JOB) || !peer_move(peer, phase, PEER_PROBED)) return;
  if (!peer->tls && !peer->probed && peer->takes_interim) {
    (void)send(peer->fd, interim, sizeof interim - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    peer->probed = true;
  }
  (void)peer_move(peer, PEER_PROBED, phase);
}

const char *peer_end_name(enum peer_end end) {
  static const char *const names[PEER_ENDS] = {"usual",     "idle_timeout",      "upload_failed",   "send_timeout",
                                               "head",      "no_request",        "no_room",         "preempted",
                                               "made_room", "client_over_share", "connections_full"};
  return names[end];
}
