// The way of one request; see request.h.
#include "server/request.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "server/clock.h"
#include "server/server.h"

// ---- states -----------------------------------------------------------------------------------------------------------

void request_to(struct request *request, enum request_state state) {
  // Row: from; bits: to. Closing is possible from every state that an IO thread owns and from REPLY.
  static const unsigned moves[REQUEST_STATES] = {
      [REQUEST_NEW] =
          1u << REQUEST_WAITING | 1u << REQUEST_PAGE | 1u << REQUEST_DISCARD | 1u << REQUEST_BODY | 1u << REQUEST_REPLY,
      [REQUEST_WAITING] = 1u << REQUEST_DISCARD | 1u << REQUEST_BODY | 1u << REQUEST_QUEUED,
      [REQUEST_PAGE] = 1u << REQUEST_REPLY,
      [REQUEST_DISCARD] = 1u << REQUEST_WAITING | 1u << REQUEST_REPLY,
      [REQUEST_BODY] = 1u << REQUEST_WAITING | 1u << REQUEST_DISCARD | 1u << REQUEST_WHOLE | 1u << REQUEST_REPLY,
      [REQUEST_WHOLE] = 1u << REQUEST_WAITING | 1u << REQUEST_QUEUED,
      [REQUEST_QUEUED] = 1u << REQUEST_RUNNING | 1u << REQUEST_DONE,
      [REQUEST_RUNNING] = 1u << REQUEST_DONE,
      [REQUEST_DONE] = 1u << REQUEST_REPLY,
  };
  assert(moves[request->state] & 1u << state);
  (void)moves;
  request->state = state;
}

struct client *request_client(const struct request *request) {
  return request->client ? request->client : request->peer->client;
}

enum vx_lane_use request_lane_use(const struct request *request) {
  return request->asked.job.sampling.from == VX_SAMPLE_NONE ? VX_LANE_VOXELIZE : VX_LANE_SAMPLE;
}

bool request_is_stale(const struct request *request, int64_t now_ns) {
  return now_ns > request->deadline_ns || atomic_load(&request->peer->gone);
}

void request_resume(struct request *request) {
  struct MHD_Connection *connection = request->connection;
  request_to(request, REQUEST_DONE);
  MHD_resume_connection(connection);
}

// Answers a request without a job, unless the watcher has ended its upload already.
static enum MHD_Result answer(struct request *request) {
  return peer_upload_end(request->peer) ? request_reply(request) : MHD_NO;
}

// ---- reservations -----------------------------------------------------------------------------------------------------

static bool granted(struct request *request, enum grant grant, enum problem_kind full, const char *what) {
  if (grant == GRANTED) return true;
  if (grant == OVER_SERVER_LIMIT)
    return problem_set(&request->problem, full, NULL, "there is no room for %s now", what);
  return problem_set(&request->problem, PROBLEM_CLIENT_OVER_SHARE, NULL,
                     "with %s this client would hold more than is left to others; wait for its other requests", what);
}

static bool buffer_granted(struct request *request, enum grant grant, const char *use, size_t bytes) {
  char what[64];
  snprintf(what, sizeof what, "%s of %zu bytes", use, bytes);
  return granted(request, grant, PROBLEM_MEMORY_FULL, what);
}

// Bytes of memory that it holds.
static size_t holding(const struct request *request) { return request->input ? request->input->capacity : 0; }

bool request_take_place(struct request *request) {
  struct clients *clients = &request->server->clients;
  enum grant grant = client_take(clients, request->client, SHARE_JOBS + request_lane_use(request), 1, 0);
  request->has_place = grant == GRANTED;
  return granted(request, grant, PROBLEM_QUEUE_FULL, "another job");
}

void request_leave_place(struct request *request) {
  if (request->has_place)
    client_give(&request->server->clients, request->client, SHARE_JOBS + request_lane_use(request), 1);
  request->has_place = false;
}

// Makes room for `bytes` of the body. Of a chunked one the length is not known ahead: the next larger buffer each time.
bool request_take_input(struct request *request, size_t bytes) {
  struct buffer *input = request->input;
  if (input && bytes <= input->capacity) return true;
  // Jobs that sample may wait long: their bodies get a part of the memory only.
  enum share share = request_lane_use(request) == VX_LANE_SAMPLE ? SHARE_SAMPLING_BYTES : SHARE_BYTES;
  enum grant grant = GRANTED;
  struct buffer *larger =
      buffer_take(&request->server->buffers, request->client, share, bytes, holding(request), &grant);
  if (!larger) return buffer_granted(request, grant, "a body", bytes);
  if (input) memcpy(larger->data, input->data, (size_t)request->received_bytes);
  request_give_input(request);
  request->input = larger;
  return true;
}

void request_give_input(struct request *request) {
  if (request->input) buffer_give(request->input);
  request->input = NULL;
}

bool request_take_scratch(struct request *request, size_t bytes) {
  struct buffers *buffers = &request->server->buffers;
  size_t left = buffers->budget - holding(request);
  if (bytes > left)
    return problem_set(&request->problem, PROBLEM_IMPOSSIBLE, NULL,
                       "the job would work in %zu bytes of memory; memory_budget_bytes leaves %zu beside its body",
                       bytes, left);
  if (!buffers_charge(buffers, bytes)) return buffer_granted(request, OVER_SERVER_LIMIT, "scratch", bytes);
  request->scratch_bytes = bytes;
  request->problem.kind = PROBLEM_NONE;  // it was asked for more before
  return true;
}

void request_give_scratch(struct request *request) {
  buffers_discharge(&request->server->buffers, request->scratch_bytes);
  request->scratch_bytes = 0;
}

bool request_take_output(struct request *request, size_t bytes) {
  enum grant grant = GRANTED;
  request->output =
      buffer_take(&request->server->buffers, request->client, SHARE_BYTES, bytes, holding(request), &grant);
  return request->output || buffer_granted(request, grant, "an answer", bytes);
}

// ---- headers ----------------------------------------------------------------------------------------------------------

// The body, if there is one, is to be read from now on.
static void go_on(struct request *request) {
  request_to(request, request->problem.kind                       ? REQUEST_DISCARD
                      : route_job(request->endpoint) != JOB_KINDS ? REQUEST_BODY
                                                                  : REQUEST_PAGE);
}

// Whether the body is read on now, or waits at the gate. Whoever resumes the connection makes the library call again, but on this
// thread, so what is written here afterwards comes first.
static bool pass_gate(struct request *request) {
  peer_upload_hold(request->peer);
  bool passed = gate_enter(&request->server->gate, request, clock_ns());
  if (passed)
    (void)!peer_upload_go_on(request->peer, clock_ns());  // where the watcher has ended it, the next step finds out
  else
    request_to(request, REQUEST_WAITING);
  return passed;
}

static void count(struct request *request) {
  request->counted_open = request->counted_active = true;
  atomic_fetch_add(&request->server->requests.begun, 1);
  atomic_fetch_add(&request->server->requests.open, 1);
  atomic_fetch_add(&request->server->requests.active, 1);
}

static void uncount_active(struct request *request) {
  if (request->counted_active) atomic_fetch_sub(&request->server->requests.active, 1);
  request->counted_active = false;
}

static enum MHD_Result begin(struct request *request, const char *method, const char *path) {
  struct server *server = request->server;
  bool early = false;
  // Before the phase is looked at: a drain that misses the count refuses the request, so none falls between.
  count(request);
  bool admitted = request_admit(request, method, path, &early);
  bool job = route_job(request->endpoint) != JOB_KINDS;
  if (!admitted || !job) uncount_active(request);
  if (!peer_upload_begin(request->peer, request->id, &request->trace, request->takes_interim, clock_ns()))
    return MHD_NO;  // idle for too long, it has just made room for another
  if (!admitted && early) {
    peer_linger(&server->watcher, request->peer);
    return answer(request);
  }
  // More of a large body than the library has read by now is still to come, so that it will find that, and no end, once it is
  // resumed.
  if (request->body_bytes <= GATED_BODY || pass_gate(request)) go_on(request);
  if (job) gate_note(&server->gate, request_client(request), clock_ns());
  return MHD_YES;
}

// ---- body -------------------------------------------------------------------------------------------------------------

// Refused while its body comes: the rest is swallowed and the problem, already set, answered at the end.
static void begin_discard(struct request *request) {
  request_leave_place(request);
  request_give_input(request);
  request_to(request, REQUEST_DISCARD);
}

// Some of the body has come. A chunked one may be short, and is let in; not so once it is long. It waits only while more of it
// has come than was read: resumed, the library reads first, and a client that had finished sending would lose its answer.
static enum MHD_Result took(struct request *request) {
  char next;
  bool large = request->body_bytes < 0 && request->received_bytes > GATED_BODY;
  if (large && !request->gated && recv(request->peer->fd, &next, 1, MSG_PEEK | MSG_DONTWAIT) == 1)
    (void)!pass_gate(request);
  return MHD_YES;
}

static enum MHD_Result discard(struct request *request, size_t *size) {
  // A Content-Length over the limit was refused early; only an endless chunked body comes here with more.
  int64_t bound = 2 * request->server->options.max_body_bytes;
  peer_upload_progress(request->peer, *size);
  request->received_bytes += (int64_t)*size;
  *size = 0;
  if (request->received_bytes <= bound) return took(request);
  peer_fail(&request->server->watcher, request->peer, PROBLEM_BODY_TOO_LARGE,
            "the body is over max_body_bytes and goes on");
  return MHD_NO;
}

static enum MHD_Result receive(struct request *request, const char *data, size_t *size) {
  int64_t needed = request->received_bytes + (int64_t)*size, limit = request->server->options.max_body_bytes;
  if (needed > limit) {
    problem_set(&request->problem, PROBLEM_BODY_TOO_LARGE, NULL, "the body is over %lld bytes", (long long)limit);
    begin_discard(request);
    return discard(request, size);
  }
  if (!request_take_input(request, (size_t)needed)) {
    begin_discard(request);
    return discard(request, size);
  }
  memcpy(request->input->data + request->received_bytes, data, *size);
  request->received_bytes = needed;
  peer_upload_progress(request->peer, *size);
  *size = 0;
  return took(request);
}

// The whole body is here: it must be whole rows that point_counts splits. (Decided at the headers where the length was known.)
static bool check_body(struct request *request) {
  int64_t row = (int64_t)job_request_row_bytes(&request->asked);
  if (request->received_bytes % row)
    return problem_set(&request->problem, PROBLEM_BAD_BODY, NULL,
                       "the body has %lld bytes; allowed: a multiple of %lld, the bytes of a row",
                       (long long)request->received_bytes, (long long)row);
  return request->body_bytes >= 0 ||
         job_request_split(&request->asked, request->received_bytes / row, &request->problem);
}

// The last call for the body. The library still means to read from the connection, and would do so first thing when it is
// resumed: from a client that has finished sending it would then take the end of file, and drop its answer. Returning
// without an answer changes its mind; it calls again at once.
static enum MHD_Result complete(struct request *request) {
  if (!check_body(request)) return answer(request);
  if (!peer_upload_end(request->peer)) return MHD_NO;
  request_to(request, REQUEST_WHOLE);
  return MHD_YES;
}

static void publish(struct request *request) {
  request_to(request, REQUEST_QUEUED);
  // First suspend, then publish: from the push on the request is not ours.
  MHD_suspend_connection(request->connection);
  if (queue_push(&request->server->queues[request_lane_use(request)], request)) return;
  problem_set(&request->problem, PROBLEM_DRAINING, NULL, "the server is stopping; ask another one");
  request_resume(request);
}

// A request whose body was too small to wait at the gate before it was read waits there now.
static enum MHD_Result submit(struct request *request) {
  struct server *server = request->server;
  int64_t wait_ms = server->options.max_timeout_ms, asked_ms = request->asked.timeout_ms;
  request->queued_ns = clock_ns();
  request->deadline_ns = request->queued_ns + (asked_ms && asked_ms < wait_ms ? asked_ms : wait_ms) * NS_PER_MS;
  if (request->gated || gate_enter(&server->gate, request, request->queued_ns))
    publish(request);
  else
    request_to(request, REQUEST_WAITING);
  return MHD_YES;
}

// The gate has resumed the connection.
static enum MHD_Result enter(struct request *request, const char *method, const char *path, const char *data,
                             size_t *size) {
  if (request->queued_ns) {
    publish(request);
    return MHD_YES;
  }
  if (!peer_upload_go_on(request->peer, clock_ns())) return MHD_NO;
  go_on(request);
  // The library may repeat the head's call, if it was suspended in that one, or go on with the body.
  bool head_again = *size == 0 && request->received_bytes < request->body_bytes;
  return head_again ? MHD_YES : request_advance(request, method, path, data, size);
}

// ---- the way of one request -------------------------------------------------------------------------------------------

enum MHD_Result request_advance(struct request *request, const char *method, const char *path, const char *data,
                                size_t *size) {
  switch (request->state) {
    case REQUEST_NEW:  // headers -> WAITING, PAGE, BODY, DISCARD, or an early answer
      return begin(request, method, path);
    case REQUEST_WAITING: return enter(request, method, path, data, size);
    case REQUEST_PAGE:
    case REQUEST_DISCARD:
      if (*size) return discard(request, size);
      return answer(request);
    case REQUEST_BODY:
      if (*size) return receive(request, data, size);
      return complete(request);
    case REQUEST_WHOLE:
      return submit(request);  // -> QUEUED; a worker runs it (job.c) and resumes the connection -> DONE
    case REQUEST_DONE: return request_reply(request);
    case REQUEST_QUEUED:
    case REQUEST_RUNNING:
    case REQUEST_REPLY:
    case REQUEST_STATES: break;  // the library does not call while another owns the request
  }
  return MHD_NO;
}

// ---- end --------------------------------------------------------------------------------------------------------------

void request_close(struct request *request, enum MHD_RequestTerminationCode code) {
  struct server *server = request->server;
  enum problem_kind failure = peer_failure(&server->watcher, request->peer);
  // 0.9.72 calls a request complete that it ended without an answer.
  bool unanswered = code != MHD_REQUEST_TERMINATED_COMPLETED_OK || request->state != REQUEST_REPLY;
  bool aborted = unanswered && !failure;
  // The library may have refused a chunk: its answer must not be lost to a reset either.
  bool refused = code == MHD_REQUEST_TERMINATED_WITH_ERROR && !failure;
  if (refused && (request->state == REQUEST_BODY || request->state == REQUEST_DISCARD))
    peer_linger(&server->watcher, request->peer);
  peer_reply_end(request->peer, clock_ns());
  if (failure)
    problem_set(&request->problem, failure, NULL,
                request->peer->tls ? "ended in mid-upload" : "answered in mid-upload");
  gate_leave(&server->gate, request);
  request_leave_place(request);
  request_give_input(request);
  if (request->output) buffer_give(request->output);
  request->output = NULL;
  if (request->client) clients_leave(&server->clients, request->client);
  request_account(request, aborted);
  bool counted_open = request->counted_open;
  uncount_active(request);

  pthread_mutex_lock(&server->requests.lock);
  request->next = server->requests.free;
  server->requests.free = request;
  pthread_mutex_unlock(&server->requests.lock);
  if (counted_open) atomic_fetch_sub(&server->requests.open, 1);  // last: the drain waits for it
}

// ---- pool -------------------------------------------------------------------------------------------------------------

void requests_init(struct request_pool *pool) {
  *pool = (struct request_pool){.free = NULL};
  pthread_mutex_init(&pool->lock, NULL);
}

void requests_destroy(struct request_pool *pool) {
  while (pool->free) {
    struct request *next = pool->free->next;
    free(pool->free);
    pool->free = next;
  }
  pthread_mutex_destroy(&pool->lock);
}

struct request *request_open(struct server *server, struct MHD_Connection *connection, struct peer *peer,
                             const char *line_fault, bool takes_interim) {
  struct request_pool *pool = &server->requests;
  pthread_mutex_lock(&pool->lock);
  struct request *request = pool->free;
  if (request) pool->free = request->next;
  pthread_mutex_unlock(&pool->lock);
  if (!request) request = malloc(sizeof *request);
  if (!request) return NULL;
  // Not the large arrays at the ends of things: they are written before they are read.
  request->state = REQUEST_NEW;
  request->server = server;
  request->next = NULL;
  request->connection = connection;
  request->peer = peer;
  request->client = NULL;
  request->gated = NULL;
  request->has_place = false;
  request->line_fault = line_fault;
  request->takes_interim = takes_interim;
  request->endpoint = ENDPOINT_UNKNOWN;
  request->page_name = "";
  request->id[0] = request->user[0] = '\0';
  memcpy(request->address, peer->address, sizeof request->address);
  request->method[0] = request->path[0] = '\0';
  request->metadata_only = request->output_ready = request->begun = false;
  request->counted_open = request->counted_active = false;
  request->body_bytes = request->received_bytes = request->sent_bytes = 0;
  request->input = request->output = NULL;
  request->scratch_bytes = 0;
  request->output_length = 0;
  request->problem = (struct problem){.kind = PROBLEM_NONE};
  request->started_ns = clock_ns();
  request->queued_ns = request->deadline_ns = request->reply_ns = 0;
  return request;
}
