// Bodies; see body.h.
#include "server/http/body.h"

#include <string.h>
#include <sys/socket.h>

#include "server/base/clock.h"
#include "server/net/connections.h"

// Whoever resumes the connection makes the library call again, but on this thread, so what is written here afterwards
// comes first.
bool body_pass_gate(struct request *request) {
  peer_upload_hold(request->peer);
  bool passed = gate_enter(&request->service->gate, &request->entry, request_client(request), clock_ns());
  if (passed)
    (void)!peer_upload_go_on(request->peer, clock_ns());  // if the watcher has ended it, the next step finds out
  else
    request_to(request, REQUEST_WAITING);
  if (!passed) loan_pause(&request->job);
  return passed;
}

// Refused while its body comes: the rest is swallowed and the problem, already set, answered at the end.
static void begin_discard(struct request *request) {
  loan_end(&request->job);
  request_to(request, REQUEST_DISCARD);
}

// Some of the body has come. A chunked body meets the gate only once it exceeds GATED_BODY. It waits only while more of
// it has come than was read: resumed, the library reads first, and a client that had finished sending would lose its
// answer.
static enum MHD_Result took(struct request *request) {
  char next;
  bool large = request->body_bytes < 0 && request->received_bytes > GATED_BODY;
  if (large && !request->entry.client && recv(request->peer->fd, &next, 1, MSG_PEEK | MSG_DONTWAIT) == 1)
    (void)body_pass_gate(request);
  return MHD_YES;
}

enum MHD_Result body_discard(struct request *request, size_t *size) {
  // A Content-Length over the limit was refused early; only an endless chunked body comes here with more.
  int64_t bound = 2 * request->service->options->max_body_bytes;
  peer_upload_progress(request->peer, *size);
  request->received_bytes += (int64_t)*size;
  *size = 0;
  if (request->received_bytes <= bound) return took(request);
  connection_fail(request->service->watcher, request->peer, PROBLEM_BODY_TOO_LARGE,
                  "the body is over max_body_bytes and goes on");
  return MHD_NO;
}

enum MHD_Result body_receive(struct request *request, const char *data, size_t *size) {
  struct job *job = &request->job;
  int64_t needed = job->input_bytes + (int64_t)*size, limit = request->service->options->max_body_bytes;
  bool fits = needed <= limit || problem_set(&request->problem, PROBLEM_BODY_TOO_LARGE, NULL,
                                             "the body is over %lld bytes", (long long)limit);
  size_t expected = request->body_bytes > 0 ? (size_t)request->body_bytes : 0;
  char *place = fits ? loan_pick_up(job, *size, expected, &request->problem) : NULL;
  if (!place) {
    begin_discard(request);
    return body_discard(request, size);
  }
  memcpy(place, data, *size);
  loan_put_down(job, *size);
  request->received_bytes = needed;
  peer_upload_progress(request->peer, *size);
  *size = 0;
  return took(request);
}

bool body_check(struct request *request, int64_t bytes) {
  struct job_request *asked = &request->job.asked;
  int64_t row = (int64_t)job_request_row_bytes(asked);
  if (bytes % row == 0) return job_request_split(asked, bytes / row, &request->problem);
  return problem_set(&request->problem, PROBLEM_BAD_BODY, NULL,
                     "the body has %lld bytes; allowed: a multiple of %lld, the bytes of a row of num_features=%d",
                     (long long)bytes, (long long)row, asked->num_features);
}
