// Bodies; see body.h.
#include "server/http/body.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/wire/formats.h"
#include "api/wire/look.h"
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
  bool large = request->body_bytes < 0 && request->received_bytes > GATED_BODY;
  if (large && !request->entry.client && peer_has_unread(request->peer)) (void)body_pass_gate(request);
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

static bool refuse_length(struct request *request, const char *decoded) {
  return problem_set(&request->problem, PROBLEM_BODY_TOO_LARGE, NULL, "the body is longer than %lld bytes%s",
                     (long long)request->service->options->max_body_bytes, decoded);
}

static bool copy(struct request *request, const char *data, size_t size) {
  struct job *job = &request->job;
  if (job->input_bytes + (int64_t)size > request->service->options->max_body_bytes) return refuse_length(request, "");
  char *place = loan_pick_up(job, size, &request->problem);
  if (!place) return false;
  memcpy(place, data, size);
  loan_put_down(job, size);
  return true;
}

// Decodes into the memory that the input has or, if none may be left, finds out whether more is to come. `*more`: there
// may be more to write, or the decoder has taken memory, which the next step charges.
static bool decode_step(struct request *request, struct coding_step *step, int64_t left, bool *more) {
  struct job *job = &request->job;
  int64_t least = step->in_size > 0 ? (int64_t)step->in_size : 1;
  char beyond, *place = loan_pick_up(job, (size_t)(least < left ? least : left), &request->problem);
  if (!place) return false;
  size_t room = job->input->capacity - job->lead - (size_t)job->input_bytes;
  if ((int64_t)room > left) room = (size_t)left;
  step->out = left ? place : &beyond;
  step->out_size = left ? room : 1;
  bool good = decoder_run(job->decoder, step, &request->problem);
  *more = step->out_size == 0 || decoder_bytes(job->decoder) > job->decoder_bytes;
  if (good && !left && step->out_size == 0) good = refuse_length(request, " when decoded");
  loan_put_down(job, left ? room - step->out_size : 0);
  return good;
}

// All of it in one go, which max_body_bytes bounds: if bytes were left to the library, the connection might hang.
static bool decode(struct request *request, const char *data, size_t size) {
  struct coding_step step = {.in = data, .in_size = size};
  bool more = true;
  // A stream may go on for ever and decode to nothing.
  if (request->received_bytes + (int64_t)size > request->service->options->max_body_bytes)
    return refuse_length(request, "");
  while (more)
    if (!decode_step(request, &step, request->service->options->max_body_bytes - request->job.input_bytes, &more))
      return false;
  return true;
}

enum MHD_Result body_receive(struct request *request, const char *data, size_t *size) {
  if (!(request->job.coding ? decode : copy)(request, data, *size)) {
    begin_discard(request);
    return body_discard(request, data, size);
  }
  request->received_bytes += (int64_t)*size;
  peer_upload_progress(request->peer, *size);
  *size = 0;
  return took(request);
}

// The decoder is the loan's until loan_settle.
static bool end_decoding(struct request *request) {
  struct job *job = &request->job;
  if (!request->received_bytes)
    return problem_set(&request->problem, PROBLEM_BAD_BODY, NULL, "the body is empty, and so no %s stream",
                       coding_name(job->coding));
  if (!loan_pick_up(job, 0, &request->problem)) return false;
  bool good = decoder_end(job->decoder, &request->problem);
  loan_put_down(job, 0);
  return good;
}

static bool keep(struct request *request, const char *data, size_t size) {
  struct page_body *body = request->page_body;
  if (!body) {
    request->page_body = body = malloc(sizeof *body);
    if (!body) return problem_set(&request->problem, PROBLEM_MEMORY_FULL, NULL, "there is no memory for the body");
    body->size = 0;
  }
  if (size > PAGE_BODY_MAX - body->size)
    return problem_set(&request->problem, PROBLEM_BODY_TOO_LARGE, NULL, PAGE_BODY_TOO_LARGE, PAGE_BODY_MAX);
  memcpy(body->bytes + body->size, data, size);
  body->size += size;
  body->bytes[body->size] = '\0';
  return true;
}

enum MHD_Result body_keep(struct request *request, const char *data, size_t *size) {
  bool taken = strcmp(request->method, "POST") == 0;  // a GET may have a body too, which means nothing
  if (taken && !keep(request, data, *size)) request_to(request, REQUEST_DISCARD);
  return body_discard(request, data, size);
}

bool body_is_measured(const struct request *request) { return request->body_bytes >= 0 && !request->job.coding; }

bool body_end(struct request *request) {
  struct job *job = &request->job;
  if (job->coding && !end_decoding(request)) return false;
  if (body_is_measured(request) || body_check(request, job->input_bytes)) return true;
  if (request->not_rows) format_suggest(FORMAT_RAW, job->input->data, (size_t)job->input_bytes, &request->problem);
  return false;
}

bool body_check(struct request *request, int64_t bytes) {
  struct job_request *asked = &request->job.asked;
  if (asked->format != FORMAT_RAW || request->job.infer.model) return true;
  int64_t row = (int64_t)job_request_row_bytes(asked);
  if (bytes % row == 0) return job_request_split(asked, bytes / row, &request->problem);
  request->not_rows = true;
  return problem_set(&request->problem, PROBLEM_BAD_BODY, NULL,
                     "%s has %lld bytes; allowed: a multiple of %lld, the size of a row with num_features=%d%s",
                     asked->points_region.name[0] ? "points_region" : "the body", (long long)bytes, (long long)row,
                     asked->num_features, request->job.form ? LOOK_OF_A_FORM : "");
}

void body_guess(struct request *request) {
  struct problem *problem = &request->problem;
  size_t length = strlen(problem->detail);
  if (request->not_rows)
    snprintf(problem->detail + length, sizeof problem->detail - length,
             "; a PCD or PLY file, or a PointCloud2, needs format=pcd, ply or pointcloud2");
}
