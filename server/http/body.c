// See http.h.
#include "server/http/http.h"

#include <stdlib.h>
#include <string.h>

#include "api/wire/formats.h"
#include "server/base/base.h"
#include "server/jobs/body_open.h"
#include "server/net/connections.h"

// The gate may resume the connection before peer_upload_hold sets the phase. The library's next call comes on this
// thread, so it sees the new phase.
void body_pass_gate(struct request *request) {
  if (!request_enter_gate(request)) peer_upload_hold(request->peer);
}

static int64_t received(const struct request *request) { return atomic_load(&request->peer->upload.bytes); }

// Sends a chunked body of more than GATED_BODY bytes to the gate, while the socket has more of the body: after a resume
// the library reads from the socket first, and if it read an end of file, it would drop the answer.
static enum MHD_Result on_chunk(struct request *request) {
  bool large = request->body_bytes < 0 && received(request) > GATED_BODY;
  if (large && !request->entry.client && peer_has_unread(request->peer)) body_pass_gate(request);
  return MHD_YES;
}

// The caller has counted the bytes.
static enum MHD_Result discard(struct request *request, const char *data, size_t *size) {
  // A body that is not whole rows may be a file of another format; its first bytes tell.
  if (request->not_rows) format_suggest(FORMAT_RAW, data, *size, &request->error);
  request->not_rows = false;
  // A refused body with a Content-Length over the limit was answered early; chunked bodies, and those of a GET, were
  // not.
  int64_t bound = 2 * request->service->options.max_body_bytes;
  *size = 0;
  if (received(request) <= bound) return on_chunk(request);
  connection_fail(&request->service->watcher, request->peer, ERROR_BODY_TOO_LARGE,
                  "the body is longer than max_body_bytes and has not ended");
  return MHD_NO;
}

enum MHD_Result body_discard(struct request *request, const char *data, size_t *size) {
  atomic_fetch_add(&request->peer->upload.bytes, (long long)*size);
  return discard(request, data, size);
}

// The worker decodes a coded body (jobs/body_open.h).
static bool copy(struct request *request, const char *data, size_t size) {
  int64_t most = request->service->options.max_body_bytes;
  if (received(request) > most)
    return error_refuse(&request->error, ERROR_BODY_TOO_LARGE, NULL, "the body is longer than %lld bytes",
                        (long long)most);
  return upload_write(request->peer, &request->job, data, size, &request->error);
}

enum MHD_Result body_receive(struct request *request, const char *data, size_t *size) {
  atomic_fetch_add(&request->peer->upload.bytes, (long long)*size);
  if (!copy(request, data, *size)) {
    upload_release(request->peer, &request->job);
    return discard(request, data, size);
  }
  *size = 0;
  return on_chunk(request);
}

static bool keep(struct request *request, const char *data, size_t size) {
  struct page_body *body = request->page_body;
  if (!body) {
    request->page_body = body = malloc(sizeof *body);
    if (!body) return error_refuse(&request->error, ERROR_MEMORY_FULL, NULL, "there is no memory for the body");
    body->size = 0;
  }
  if (size > PAGE_BODY_MAX - body->size)
    return error_refuse(&request->error, ERROR_BODY_TOO_LARGE, NULL, PAGE_BODY_TOO_LARGE, PAGE_BODY_MAX);
  memcpy(body->bytes + body->size, data, size);
  body->size += size;
  body->bytes[body->size] = '\0';
  return true;
}

enum MHD_Result body_keep(struct request *request, const char *data, size_t *size) {
  bool taken = strcmp(request->method, "POST") == 0;  // the body of a GET is ignored
  if (taken) (void)keep(request, data, *size);        // a refusal is answered after the body
  return body_discard(request, data, size);
}

bool body_end(struct request *request) {
  const struct job *job = &request->job;
  if (job->spec.coding || body_check(request, job->held.body_bytes)) return true;
  if (request->not_rows) format_suggest(FORMAT_RAW, job_body(job), (size_t)job->held.body_bytes, &request->error);
  return false;
}

bool body_check(struct request *request, int64_t bytes) {
  bool good = body_split(&request->job, bytes, &request->error);
  request->not_rows = !good && !body_is_whole(&request->job, bytes);
  return good;
}

void body_guess(struct request *request) {
  if (request->not_rows)
    error_suffix(&request->error, "; a PCD or PLY file, or a PointCloud2, needs format=pcd, ply or pointcloud2");
}
