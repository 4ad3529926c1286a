// The way of one request; see exchange.h.
#include "server/http/exchange.h"

#include <stddef.h>

#include "server/base/clock.h"
#include "server/http/account.h"
#include "server/http/admit.h"
#include "server/http/body.h"
#include "server/http/reply.h"
#include "server/net/connections.h"

static struct request *request_of_entry(struct gate_entry *entry) {
  return (struct request *)((char *)entry - offsetof(struct request, entry));
}

// The gate's lock is held, so nobody resumes the connection before it is suspended.
void exchange_hold(struct gate_entry *entry) { MHD_suspend_connection(request_of_entry(entry)->connection); }

void exchange_let_go(struct gate_entry *entry) { MHD_resume_connection(request_of_entry(entry)->connection); }

// The job's last act, on whatever thread: the connection goes back to its IO thread.
static void on_done(struct job *job) {
  struct request *request = request_of_job(job);
  struct MHD_Connection *connection = request->connection;
  if (!job->answered) request->problem = job->problem;
  request_to(request, REQUEST_DONE);
  MHD_resume_connection(connection);
}

// Answers a request without a job, unless the watcher has ended its upload already.
static enum MHD_Result answer(struct request *request) {
  return peer_upload_end(request->peer) ? request_reply(request) : MHD_NO;
}

// ---- headers --------------------------------------------------------------------------------------------------------

// The body, if there is one, is to be read from now on.
static void go_on(struct request *request) {
  request_to(request, request->problem.kind               ? REQUEST_DISCARD
                      : route_computes(request->endpoint) ? REQUEST_BODY
                                                          : REQUEST_PAGE);
}

static enum MHD_Result begin(struct request *request, const char *method, const char *path) {
  struct service *service = request->service;
  bool early = false;
  // Before the phase is looked at: a drain that misses the count refuses the request, so none falls between.
  request_count(request);
  bool admitted = request_admit(request, method, path, &early);
  bool job = route_computes(request->endpoint);
  if (!admitted || !job) request_uncount_active(request);
  if (!peer_upload_begin(request->peer, request->id, &request->trace, request->takes_interim, clock_ns()))
    return MHD_NO;  // idle for too long, it has just made room for another
  if (!admitted && early) {
    connection_linger(service->watcher, request->peer);
    return answer(request);
  }
  // More of a large body than the library has read by now is still to come, so that it will find that, and no end, once
  // it is resumed.
  if (request->body_bytes <= GATED_BODY || body_pass_gate(request)) go_on(request);
  if (job) gate_note(&service->gate, request_client(request), clock_ns());
  return MHD_YES;
}

// ---- job ------------------------------------------------------------------------------------------------------------

// The last call for the body. The library still means to read from the connection, and would do so first thing when it
// is resumed: from a client that has finished sending it would then take the end of file, and drop its answer.
// Returning without an answer changes its mind; it calls again at once.
static enum MHD_Result complete(struct request *request) {
  // If the length was known, that was held against the rows when the headers were here.
  if (request->body_bytes < 0 && !body_check(request, request->received_bytes)) return answer(request);
  if (!loan_settle(&request->job, &request->problem)) return answer(request);
  if (!peer_upload_end(request->peer)) return MHD_NO;
  request_to(request, REQUEST_WHOLE);
  return MHD_YES;
}

static void publish(struct request *request) {
  struct job *job = &request->job;
  request_to(request, REQUEST_JOB);
  // First suspend, then publish: from the submission on the request is not ours.
  MHD_suspend_connection(request->connection);
  if (jobs_submit(request->service->jobs, job)) return;
  problem_set(&job->problem, PROBLEM_DRAINING, NULL, "the server is stopping; ask another one");
  job->done(job);
}

// A request whose body was too small to wait at the gate before it was read waits there now.
static enum MHD_Result submit(struct request *request) {
  struct service *service = request->service;
  struct job *job = &request->job;
  int64_t wait_ms = service->options->max_timeout_ms, asked_ms = job->asked.timeout_ms;
  job->id = request->id;
  job->trace_id = trace_is_clients(&request->trace) ? request->trace.trace_id : NULL;
  job->gone = &request->peer->gone;
  job->done = on_done;
  job->started_ns = request->started_ns;
  job->queued_ns = clock_ns();
  job->deadline_ns = job->queued_ns + (asked_ms && asked_ms < wait_ms ? asked_ms : wait_ms) * NS_PER_MS;
  if (request->entry.client || gate_enter(&service->gate, &request->entry, request_client(request), job->queued_ns))
    publish(request);
  else
    request_to(request, REQUEST_WAITING);
  return MHD_YES;
}

// The gate has resumed the connection.
static enum MHD_Result enter(struct request *request, const char *method, const char *path, const char *data,
                             size_t *size) {
  if (request->job.queued_ns) {
    publish(request);
    return MHD_YES;
  }
  if (!peer_upload_go_on(request->peer, clock_ns())) return MHD_NO;
  loan_resume(&request->job);
  go_on(request);
  // The library may repeat the head's call, if it was suspended in that one, or go on with the body.
  bool head_again = *size == 0 && request->received_bytes < request->body_bytes;
  return head_again ? MHD_YES : exchange_advance(request, method, path, data, size);
}

// ---- the way of one request -----------------------------------------------------------------------------------------

enum MHD_Result exchange_advance(struct request *request, const char *method, const char *path, const char *data,
                                 size_t *size) {
  switch (request->state) {
    case REQUEST_NEW:  // headers -> WAITING, PAGE, BODY, DISCARD, or an early answer
      return begin(request, method, path);
    case REQUEST_WAITING: return enter(request, method, path, data, size);
    case REQUEST_PAGE:
    case REQUEST_DISCARD:
      if (*size) return body_discard(request, size);
      return answer(request);
    case REQUEST_BODY:
      if (*size) return body_receive(request, data, size);
      return complete(request);
    case REQUEST_WHOLE:
      return submit(request);  // -> JOB; a worker runs it (jobs/run.c) and resumes the connection -> DONE
    case REQUEST_DONE: return request_reply(request);
    case REQUEST_JOB:
    case REQUEST_REPLY:
    case REQUEST_STATES: break;  // the library does not call while another owns the request
  }
  return MHD_NO;
}

struct request *exchange_open(struct service *service, struct MHD_Connection *connection, struct peer *peer,
                              const char *line_fault, bool takes_interim) {
  struct request *request = request_new(service, connection, peer);
  if (!request) return NULL;
  request->line_fault = line_fault;
  request->takes_interim = takes_interim;
  return request;
}

void exchange_close(struct request *request, enum MHD_RequestTerminationCode code) {
  struct service *service = request->service;
  struct job *job = &request->job;
  enum problem_kind failure = connection_failure(service->watcher, request->peer);
  // 0.9.72 calls a request complete that it ended without an answer.
  bool unanswered = code != MHD_REQUEST_TERMINATED_COMPLETED_OK || request->state != REQUEST_REPLY;
  bool aborted = unanswered && !failure;
  // The library may have refused a chunk: its answer must not be lost to a reset either.
  bool refused = code == MHD_REQUEST_TERMINATED_WITH_ERROR && !failure;
  if (refused && (request->state == REQUEST_BODY || request->state == REQUEST_DISCARD))
    connection_linger(service->watcher, request->peer);
  peer_reply_end(request->peer, clock_ns());
  if (failure)
    problem_set(&request->problem, failure, NULL,
                request->peer->tls ? "ended in mid-upload" : "answered in mid-upload");
  gate_leave(&service->gate, &request->entry);
  loan_end(job);
  job_give_output(job);
  if (job->client) clients_leave(service->clients, job->client);
  request_account(request, aborted);
  request_free(request);
}
