// The way of one request; see request.h.
#include "server/request.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "server/clock.h"
#include "server/log.h"
#include "server/server.h"

// ---- states -----------------------------------------------------------------------------------------------------------

void request_to(struct request *request, enum request_state state) {
  // Row: from; bits: to. Closing is possible from every state that an IO thread owns and from REPLY.
  static const unsigned moves[REQUEST_STATES] = {
      [REQUEST_NEW] = 1u << REQUEST_PAGE | 1u << REQUEST_DISCARD | 1u << REQUEST_BODY | 1u << REQUEST_REPLY,
      [REQUEST_PAGE] = 1u << REQUEST_REPLY,
      [REQUEST_DISCARD] = 1u << REQUEST_REPLY,
      [REQUEST_BODY] = 1u << REQUEST_DISCARD | 1u << REQUEST_WHOLE | 1u << REQUEST_REPLY,
      [REQUEST_WHOLE] = 1u << REQUEST_QUEUED,
      [REQUEST_QUEUED] = 1u << REQUEST_RUNNING | 1u << REQUEST_DONE,
      [REQUEST_RUNNING] = 1u << REQUEST_DONE,
      [REQUEST_DONE] = 1u << REQUEST_REPLY,
  };
  assert(moves[request->state] & 1u << state);
  (void)moves;
  request->state = state;
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

// ---- headers ----------------------------------------------------------------------------------------------------------

static enum MHD_Result begin(struct request *request, const char *method, const char *path) {
  struct request_pool *pool = &request->server->requests;
  bool early = false;
  // Counted before the phase is looked at: a drain that misses the count refuses the request, so none falls between.
  request->counted_open = true;
  atomic_fetch_add(&pool->open, 1);
  bool admitted = request_admit(request, method, path, &early);
  peer_upload_begin(request->peer, request->id, clock_ns());
  if (!admitted && early) {
    peer_linger(&request->server->watcher, request->peer);
    return answer(request);
  }
  request_to(request, !admitted                                   ? REQUEST_DISCARD
                      : route_job(request->endpoint) != JOB_KINDS ? REQUEST_BODY
                                                                  : REQUEST_PAGE);
  request->counted_active = request->state == REQUEST_BODY;
  if (request->counted_active) atomic_fetch_add(&pool->active, 1);
  return MHD_YES;
}

// ---- body -------------------------------------------------------------------------------------------------------------

struct buffer *request_take_buffer(struct request *request, size_t bytes) {
  struct server *server = request->server;
  long long capacity = (long long)buffer_capacity(bytes);
  if (request_lane_use(request) == VX_LANE_VOXELIZE) return buffer_take(&server->buffers, bytes);
  long long others = atomic_fetch_add(&server->sampling_bytes, capacity);
  bool fits = others == 0 || others + capacity <= server->options.memory_budget_bytes / 2;
  struct buffer *buffer = fits ? buffer_take(&server->buffers, bytes) : NULL;
  atomic_fetch_add(&server->sampling_bytes, buffer ? (long long)buffer->capacity - capacity : -capacity);
  return buffer;
}

void request_give_input(struct request *request) {
  struct buffer *input = request->input;
  if (!input) return;
  if (request_lane_use(request) == VX_LANE_SAMPLE)
    atomic_fetch_sub(&request->server->sampling_bytes, (long long)input->capacity);
  buffer_give(input);
  request->input = NULL;
}

// Refused while its body comes: the rest is swallowed and the problem, already set, answered at the end.
static void begin_discard(struct request *request) {
  request_give_input(request);
  request_to(request, REQUEST_DISCARD);
}

static enum MHD_Result discard(struct request *request, size_t *size) {
  // A Content-Length over the limit was refused early; only an endless chunked body comes here with more.
  int64_t bound = 2 * request->server->options.max_body_bytes;
  peer_upload_progress(request->peer, *size);
  request->received_bytes += (int64_t)*size;
  *size = 0;
  if (request->received_bytes <= bound) return MHD_YES;
  peer_fail(&request->server->watcher, request->peer, PROBLEM_BODY_TOO_LARGE,
            "the body is over max_body_bytes and goes on");
  return MHD_NO;
}

// Makes room for `needed` bytes of a chunked body, whose length is not known ahead: the next larger buffer each time.
static bool grow_input(struct request *request, int64_t needed) {
  struct buffer *input = request->input;
  if (input && needed <= (int64_t)input->capacity) return true;
  struct buffer *larger = request_take_buffer(request, (size_t)needed);
  if (!larger) return false;
  if (input) memcpy(larger->data, input->data, (size_t)request->received_bytes);
  request_give_input(request);
  request->input = larger;
  return true;
}

static enum MHD_Result receive(struct request *request, const char *data, size_t *size) {
  int64_t needed = request->received_bytes + (int64_t)*size, limit = request->server->options.max_body_bytes;
  if (needed > limit) {
    problem_set(&request->problem, PROBLEM_BODY_TOO_LARGE, NULL, "the body is over %lld bytes", (long long)limit);
    begin_discard(request);
    return discard(request, size);
  }
  if (!grow_input(request, needed)) {
    problem_set(&request->problem, PROBLEM_MEMORY_FULL, NULL, "there is no buffer for a body of %lld bytes or more now",
                (long long)needed);
    begin_discard(request);
    return discard(request, size);
  }
  memcpy(request->input->data + request->received_bytes, data, *size);
  request->received_bytes = needed;
  peer_upload_progress(request->peer, *size);
  *size = 0;
  return MHD_YES;
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

static enum MHD_Result submit(struct request *request) {
  struct server *server = request->server;
  int64_t wait_ms = server->options.max_timeout_ms, asked_ms = request->asked.timeout_ms;
  request->queued_ns = clock_ns();
  request->deadline_ns = request->queued_ns + (asked_ms && asked_ms < wait_ms ? asked_ms : wait_ms) * NS_PER_MS;
  request_to(request, REQUEST_QUEUED);
  // First suspend, then publish: from the push on the request is not ours.
  MHD_suspend_connection(request->connection);
  if (!queue_push(&server->queues[request_lane_use(request)], request)) {
    if (atomic_load(&server->phase) == PHASE_DRAINING)
      problem_set(&request->problem, PROBLEM_DRAINING, NULL, "the server is stopping; ask another one");
    else
      problem_set(&request->problem, PROBLEM_QUEUE_FULL, NULL, "%lld jobs are waiting",
                  (long long)server->options.queue_depth);
    request_resume(request);
  }
  return MHD_YES;
}

// ---- the way of one request -------------------------------------------------------------------------------------------

enum MHD_Result request_advance(struct request *request, const char *method, const char *path, const char *data,
                                size_t *size) {
  switch (request->state) {
    case REQUEST_NEW:  // headers -> PAGE, BODY, DISCARD, or an early answer
      return begin(request, method, path);
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

static void log_request(struct request *request, bool aborted) {
  struct log_line line;
  log_begin(&line, LOG_INFO, "request");
  if (!line.wanted) return;
  log_string(&line, "id", request->id);
  log_string(&line, "client", request->peer->address);
  if (request->user[0]) log_string(&line, "user", request->user);
  log_string(&line, "endpoint", route_of(request->endpoint)->path);
  if (!aborted) log_integer(&line, "status", problem_info(request->problem.kind)->status);
  if (request->problem.kind && !aborted) log_string(&line, "reason", problem_info(request->problem.kind)->name);
  if (request->problem.kind && !aborted) log_string(&line, "detail", request->problem.detail);
  if (aborted) log_string(&line, "aborted", "true");
  log_integer(&line, "received_bytes", request->received_bytes);
  log_integer(&line, "sent_bytes", request->sent_bytes);
  log_milliseconds(&line, "ms", clock_ns() - request->started_ns);
  log_end(&line);
}

void request_close(struct request *request, enum MHD_RequestTerminationCode code) {
  struct server *server = request->server;
  struct metrics *metrics = &server->metrics;
  enum problem_kind failure = peer_failure(&server->watcher, request->peer);
  bool aborted = code != MHD_REQUEST_TERMINATED_COMPLETED_OK && !failure;
  peer_reply_end(request->peer, clock_ns());
  if (failure)
    problem_set(&request->problem, failure, NULL,
                request->peer->tls ? "ended in mid-upload" : "answered in mid-upload");
  request_give_input(request);
  if (request->output) buffer_give(request->output);
  request->output = NULL;
  if (aborted)
    atomic_fetch_add(&metrics->aborted, 1);
  else
    metrics_request(metrics, request->endpoint, request->problem.kind);
  atomic_fetch_add(&metrics->received_bytes, (uint64_t)request->received_bytes);
  atomic_fetch_add(&metrics->sent_bytes, (uint64_t)request->sent_bytes);
  log_request(request, aborted);
  bool counted_open = request->counted_open;
  if (request->counted_active) atomic_fetch_sub(&server->requests.active, 1);

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
                             bool uri_sound) {
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
  request->uri_sound = uri_sound;
  request->endpoint = ENDPOINT_UNKNOWN;
  request->page_name = "";
  request->id[0] = request->user[0] = '\0';
  request->metadata_only = request->output_ready = false;
  request->counted_open = request->counted_active = false;
  request->body_bytes = request->received_bytes = request->sent_bytes = 0;
  request->input = request->output = NULL;
  request->output_length = 0;
  request->problem = (struct problem){.kind = PROBLEM_NONE};
  request->started_ns = clock_ns();
  request->queued_ns = request->deadline_ns = 0;
  return request;
}
