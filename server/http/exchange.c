// The path of a request through the phases of its peer (net/peer.h); see http.h.
#include "server/http/http.h"

#include <stddef.h>

#include "server/base/base.h"
#include "server/jobs/held.h"
#include "server/jobs/run.h"
#include "server/net/connections.h"

static struct request *request_of_entry(struct gate_entry *entry) {
  return (struct request *)((char *)entry - offsetof(struct request, entry));
}

void exchange_hold(struct gate_entry *entry) { MHD_suspend_connection(request_of_entry(entry)->connection); }

void exchange_resume(struct gate_entry *entry) { MHD_resume_connection(request_of_entry(entry)->connection); }

// Asks the library: once the gate has let the request go, the connection stays suspended until its I/O thread resumes
// it.
static bool is_suspended(const struct request *request) {
  const union MHD_ConnectionInfo *info =
      MHD_get_connection_info(request->connection, MHD_CONNECTION_INFO_CONNECTION_SUSPENDED);
  return info && info->suspended;
}

// The end of the job, on any thread: returns the request to its I/O thread.
static void on_done(struct job *job) {
  struct request *request = request_of_job(job);
  struct MHD_Connection *connection = request->connection;
  if (!job->result.answered) request->error = job->result.error;
  if (atomic_exchange(&request->job_state, JOB_ENDED) == JOB_SUSPENDED) MHD_resume_connection(connection);
}

static void release_job(struct request *request) {
  upload_release(request->peer, &request->job);
  job_release(&request->job);
}

// ---- headers --------------------------------------------------------------------------------------------------------

static enum MHD_Result begin(struct request *request, const char *method, const char *path) {
  struct service *service = request->service;
  // The request was counted before request_admit looks at the phase: either the drain sees the count and waits, or the
  // request sees the drain and is refused.
  request_admit(request, method, path);
  if (!request->job_kind) request_uncount_active(request);
  if (!peer_upload_begin(request->peer, request->id, request->style, &request->trace, request->takes_interim,
                         clock_ns()))
    return MHD_NO;  // this connection, idle for long, was just ended to make room for another
  if (request->answer_early) {
    connection_linger(&service->watcher, request->peer);
    return peer_upload_end(request->peer) ? request_reply(request) : MHD_NO;
  }
  // Most of the body is still to come, so after a resume the library reads no end of file (see on_chunk in body.c).
  if (request->body_bytes > GATED_BODY) body_pass_gate(request);
  return MHD_YES;
}

// ---- the whole request ----------------------------------------------------------------------------------------------

// The last call for the body. Returns without an answer, so that the library calls again at once; that call may suspend
// the connection (submit). If this call suspended it, the library would first read from the socket after the resume;
// from a client that has finished sending, it would read the end of file, and drop the answer.
static enum MHD_Result complete(struct request *request) {
  bool job = request->job_kind && !request->error.kind;
  if (job && !(upload_commit(request->peer, &request->job, &request->error) &&
               (request->job_kind == PAGE_JOB || request->body_bytes >= 0 || body_end(request))))
    release_job(request);
  return peer_upload_end(request->peer) ? MHD_YES : MHD_NO;
}

// Answers a refusal or a page without a job at once, and runs a small job. `only`: probably no other request waits:
// none is active, and this thread's last job came on the same connection.
static enum MHD_Result start(struct request *request) {
  static _Thread_local const struct peer *last;  // never dereferenced
  struct jobs *jobs = &request->service->jobs;
  struct job *job = &request->job;
  if (!request->job_kind || request->error.kind) return request_reply(request);
  bool only = last == request->peer && atomic_load(&request->service->requests.active) == 1;
  last = request->peer;
  peer_job_begin(request->peer);
  if (small_run(&jobs->small, job) ||
      !((only && small_run_on_gpu(&jobs->small, &jobs->workers, job)) || jobs_submit(jobs, job)))
    on_done(job);
  if (atomic_load(&request->job_state) == JOB_ENDED) return request_reply(request);
  MHD_suspend_connection(request->connection);
  if (atomic_exchange(&request->job_state, JOB_SUSPENDED) == JOB_ENDED) MHD_resume_connection(request->connection);
  return MHD_YES;
}

static void fill_in(struct request *request) {
  struct job *job = &request->job;
  int64_t wait_ms = request->service->options.max_timeout_ms, asked_ms = job->asked.timeout_ms;
  job->spec.id = request->id;
  job->spec.trace_id = trace_is_clients(&request->trace) ? request->trace.trace_id : NULL;
  job->spec.gone = &request->peer->gone;
  job->spec.done = on_done;
  job->spec.started_ns = request->started_ns;
  job->queued_ns = clock_ns();
  job->deadline_ns = job->queued_ns + (asked_ms && asked_ms < wait_ms ? asked_ms : wait_ms) * NS_PER_MS;
}

// A request that has not been at the gate enters it here, even a refused one, but not a probe. The library calls again
// once the gate has let the request go.
static enum MHD_Result submit(struct request *request) {
  if (request->job_kind && !request->job.queued_ns) fill_in(request);
  bool passes = route_is_probe(request->endpoint) || request->entry.client || request_enter_gate(request);
  return passes ? start(request) : MHD_YES;
}

static enum MHD_Result take_body(struct request *request, const char *data, size_t *size) {
  if (request->chunk_broken) {
    connection_fail(&request->service->watcher, request->peer, ERROR_BAD_REQUEST,
                    "a line of a chunk has a control byte, or does not end in CR LF");
    return MHD_NO;
  }
  if (*size == 0) return complete(request);
  if (request->error.kind) return body_discard(request, data, size);
  return request->job_kind == POINTS_JOB ? body_receive(request, data, size) : body_keep(request, data, size);
}

// Continues after the gate. If the call for the head suspended the connection, the library repeats that call.
static enum MHD_Result resume(struct request *request, const char *data, size_t *size) {
  if (!connection_go_on(&request->service->watcher, request->peer)) return MHD_NO;
  bool head_again = *size == 0 && atomic_load(&request->peer->upload.bytes) < request->body_bytes;
  return head_again ? MHD_YES : take_body(request, data, size);
}

// ---- the path of a request ------------------------------------------------------------------------------------------

enum MHD_Result exchange_advance(struct request *request, const char *method, const char *path, const char *data,
                                 size_t *size) {
  int phase = peer_phase(request->peer);
  // The library may also call while the request waits at the gate, with the next chunk of the body. Such a call takes
  // no bytes, because a waiting request belongs to the gate.
  if (phase != PEER_IDLE && phase != PEER_UPLOAD && is_suspended(request)) return MHD_YES;
  switch (phase) {
    case PEER_IDLE:  // headers -> UPLOAD, HELD, or an early answer
      return begin(request, method, path);
    case PEER_HELD: return resume(request, data, size);
    case PEER_UPLOAD:
    case PEER_PREEMPTED: return take_body(request, data, size);
    case PEER_WHOLE: return submit(request);  // -> REPLY, or JOB: run here, or by a worker, which then calls on_done
    case PEER_JOB: return request_reply(request);
    default: return MHD_NO;  // FAILED: nothing more is answered
  }
}

void exchange_end(struct request *request, enum MHD_RequestTerminationCode code) {
  struct service *service = request->service;
  struct job *job = &request->job;
  enum error_kind failure = connection_failure(&service->watcher, request->peer);
  bool aborted = code != MHD_REQUEST_TERMINATED_COMPLETED_OK && !failure && !request->lasting;
  // The library may have answered a malformed chunk by itself. Without lingering, a reset could destroy the answer.
  bool refused = code == MHD_REQUEST_TERMINATED_WITH_ERROR && !failure;
  int phase = peer_phase(request->peer);
  bool in_body = phase == PEER_UPLOAD || phase == PEER_HELD || phase == PEER_PREEMPTED || phase == PEER_WHOLE;
  if (refused && in_body) connection_linger(&service->watcher, request->peer);
  peer_reply_end(request->peer, clock_ns());
  if (failure)
    error_refuse(&request->error, failure, NULL, request->peer->tls ? "ended in mid-upload" : "answered in mid-upload");
  gate_release(&service->gate, &request->entry);
  release_job(request);
  job_release_buffer(&job->held.output);
  if (request->own_client) clients_release(&service->clients, request->own_client);
  request_account(request, aborted);
  request_end(request);
}
