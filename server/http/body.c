// Bodies; see body.h.
#include "server/http/body.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "api/wire/formats.h"
#include "server/base/clock.h"
#include "server/net/connections.h"

// The gate may resume the connection before request_to has run here. The library's next call comes on this same thread,
// so it sees the new state all the same.
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

// Refuses a request in the middle of its body: the rest is discarded, then the problem, already set, is answered.
static void begin_discard(struct request *request) {
  loan_end(&request->job);
  request_to(request, REQUEST_DISCARD);
}

// A part of the body was taken. A chunked body meets the gate once it exceeds GATED_BODY, and only if more of it is in
// the socket already. The reason: when it is resumed, the library reads first. If it found an end of file there, it
// would drop the answer of a client that has finished sending.
static enum MHD_Result took(struct request *request) {
  char next;
  bool large = request->body_bytes < 0 && request->received_bytes > GATED_BODY;
  if (large && !request->entry.client && recv(request->peer->fd, &next, 1, MSG_PEEK | MSG_DONTWAIT) == 1)
    (void)body_pass_gate(request);
  return MHD_YES;
}

enum MHD_Result body_discard(struct request *request, const char *data, size_t *size) {
  // What is not whole rows may be a file of another format, which its beginning shows.
  if (request->not_rows) format_suggest(FORMAT_RAW, data, *size, &request->problem);
  request->not_rows = false;
  // A refused request with a Content-Length over the limit was answered early. So only a chunked body, or that of a
  // GET, can exceed this bound.
  int64_t bound = 2 * request->service->options->max_body_bytes;
  peer_upload_progress(request->peer, *size);
  request->received_bytes += (int64_t)*size;
  *size = 0;
  if (request->received_bytes <= bound) return took(request);
  connection_fail(request->service->watcher, request->peer, PROBLEM_BODY_TOO_LARGE,
                  "the body is longer than max_body_bytes and has not ended");
  return MHD_NO;
}

enum MHD_Result body_receive(struct request *request, const char *data, size_t *size) {
  struct job *job = &request->job;
  int64_t needed = job->input_bytes + (int64_t)*size, limit = request->service->options->max_body_bytes;
  bool fits = needed <= limit || problem_set(&request->problem, PROBLEM_BODY_TOO_LARGE, NULL,
                                             "the body is longer than %lld bytes", (long long)limit);
  char *place = fits ? loan_pick_up(job, *size, &request->problem) : NULL;
  if (request->body_bytes < 0 && job->input_bytes == 0 && job->asked.format == FORMAT_RAW)
    request->hint = format_hint(FORMAT_RAW, data, *size);
  if (!place) {
    begin_discard(request);
    return body_discard(request, data, size);
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
  if (asked->format != FORMAT_RAW) return true;
  int64_t row = (int64_t)job_request_row_bytes(asked);
  if (bytes % row == 0) return job_request_split(asked, bytes / row, &request->problem);
  request->not_rows = request->body_bytes > 0;
  return problem_set(
      &request->problem, PROBLEM_BAD_BODY, NULL,
      "the body has %lld bytes; allowed: a multiple of %lld, the size of a row with num_features=%d%s%s%s",
      (long long)bytes, (long long)row, asked->num_features,
      request->job.form ? "; if curl -d sent it, use --data-binary: -d strips bytes" : "", request->hint ? "; " : "",
      request->hint ? request->hint : "");
}

void body_guess(struct request *request) {
  struct problem *problem = &request->problem;
  size_t length = strlen(problem->detail);
  if (request->not_rows)
    snprintf(problem->detail + length, sizeof problem->detail - length,
             "; a PCD or PLY file, or a PointCloud2, needs format=pcd, ply or pointcloud2");
}
