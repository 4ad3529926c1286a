// See http.h.
#include "server/http/http.h"

#include <string.h>

#include "server/base/base.h"
#include "server/base/log.h"

// The stage at which the client left. If it leaves while its job waits or runs, the job ends with ERROR_DEADLINE.
static enum abort_stage abort_stage(const struct request *request) {
  if (!request->reply_ns) return ABORT_UPLOAD;
  if (request->error.kind != ERROR_DEADLINE || !atomic_load(&request->peer->gone)) return ABORT_SEND;
  return request->job.result.begun ? ABORT_RUN : ABORT_QUEUE;
}

static bool is_routine(const struct request *request) {
  return route_is_probe(request->endpoint) || request->endpoint == ENDPOINT_METRICS;
}

static enum log_level level_of(const struct request *request, bool aborted) {
  int status = request_status(request);
  if (aborted) return LOG_INFO;
  if (status == 500) return LOG_ERROR;  // a defect
  if (status > 500) return LOG_WARNING;
  return status == 200 && is_routine(request) ? LOG_DEBUG : LOG_INFO;
}

static void log_outcome(struct log_line *line, const struct request *request, bool aborted) {
  if (aborted) {
    log_string(line, "aborted", abort_name(abort_stage(request)));
    return;
  }
  log_integer(line, "status", request_status(request));
  if (!request->error.kind) return;
  log_string(line, "reason", problem_info(request->error.kind)->name);
  log_string(line, "detail", request->error.text);
}

static void log_stages(struct log_line *line, const struct request *request, int64_t now_ns) {
  const struct answer *answer = &request->job.result.answer;
  log_string(line, "backend", answer->backend);
  log_milliseconds(line, "receive_ms", answer->receive_ns);
  log_milliseconds(line, "queue_ms", answer->queue_ns);
  log_milliseconds(line, "run_ms", answer->total_ns - answer->receive_ns - answer->queue_ns);
  log_milliseconds(line, "send_ms", now_ns - request->reply_ns);
}

static bool is_logged(const struct request *request, bool aborted) {
  int access_log = request->service->options.access_log;
  return access_log == ACCESS_LOG_ALL || (access_log == ACCESS_LOG_ERRORS && (aborted || request->error.kind));
}

static void log_request(const struct request *request, bool aborted, int64_t now_ns) {
  struct log_line line;
  if (!is_logged(request, aborted)) return;
  log_begin(&line, level_of(request, aborted), "request");
  if (!line.wanted) return;
  log_string(&line, "id", request->id);
  log_string(&line, "client", request->address);
  if (strcmp(request->address, request->peer->address) != 0) log_string(&line, "proxy", request->peer->address);
  if (request->user[0]) log_string(&line, "user", request->user);
  log_string(&line, "method", request->method);
  log_string(&line, "endpoint", routes[request->endpoint].path);
  if (strcmp(request->path, routes[request->endpoint].path) != 0) log_string(&line, "path", request->path);
  log_outcome(&line, request, aborted);
  log_integer(&line, "received_bytes", atomic_load(&request->peer->upload.bytes));
  log_integer(&line, "sent_bytes", request->sent_bytes);
  log_milliseconds(&line, "ms", now_ns - request->started_ns);
  if (request->job.result.answered && request->reply_ns) log_stages(&line, request, now_ns);
  log_string(&line, "trace_id", request->trace.trace_id);
  log_string(&line, "span_id", request->trace.span_id);
  if (trace_is_clients(&request->trace)) log_string(&line, "parent_id", request->trace.parent_id);
  log_end(&line);
}

void request_account(struct request *request, bool aborted) {
  struct counters *counters = &request->service->counters;
  enum endpoint endpoint = route_counted(request->endpoint);
  int64_t now_ns = clock_ns();
  if (aborted)
    counters_abort(counters, abort_stage(request));
  else if (request->unchanged)
    counters_unchanged(counters, endpoint, now_ns - request->started_ns);
  else
    counters_request(counters, endpoint, request->error.kind, now_ns - request->started_ns);
  bool sent = !aborted && request->job.result.answered;
  counters_transfer(counters, atomic_load(&request->peer->upload.bytes), request->sent_bytes,
                    sent ? now_ns - request->reply_ns : -1);
  log_request(request, aborted, now_ns);
}
