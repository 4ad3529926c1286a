// See http.h.
#include "server/http/http.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/wire/infer_answer.h"
#include "server/base/base.h"
#include "server/http/library.h"

static void release_output(void *cls) { buffer_release(cls); }

static struct MHD_Response *response_of_output(struct request *request) {
  struct job_result *result = &request->job.result;
  struct buffer *output = request->job.held.output;
  struct MHD_IoVec parts[INFER_RANGES_MAX];
  for (int i = 0; i < result->ranges; i++)
    parts[i] = (struct MHD_IoVec){output->data + result->range[i].offset, result->range[i].bytes};
  struct MHD_Response *response =
      result->ranges ? MHD_create_response_from_iovec(parts, (unsigned)result->ranges, release_output, output)
                     : MHD_create_response_from_buffer_with_free_callback_cls(result->length, output->data,
                                                                              release_output, output);
  if (!response) return NULL;
  request->job.held.output = NULL;
  request->sent_bytes = (int64_t)result->length;
  return response;
}

static const char *name_of(const struct request *request, const struct page *page) {
  return page->name ? page->name : request->names.name;
}

static const char *media_type_of_page(const struct request *request, const struct page *page) {
  return page->media_type ? page->media_type : page->media_type_of(name_of(request, page));
}

static struct page_asked asked_of(const struct request *request, const struct page *page) {
  const struct page_body *body = request->page_body;
  return (struct page_asked){.service = request->service,
                             .page = page,
                             .name = name_of(request, page),
                             .version = request->names.version,
                             .user = request->user,
                             .address = request->address,
                             .client = request->own_client,
                             .local = request->job.spec.local,
                             .body = body ? body->bytes : "",
                             .body_size = body ? body->size : 0};
}

// Measures the page, then writes it. The page may grow in between (a counter gains a digit), so it gets GROWTH bytes
// more. If it outgrows these too (a reload has added presets), it is measured again.
static struct MHD_Response *response_of_page(struct request *request, const struct page_asked *asked) {
  enum { GROWTH = 4096 };
  const struct page *page = asked->page;
  if (page->act && !page->act(asked, &request->error)) return NULL;
  struct text text;
  char *memory = NULL;
  bool written;
  do {
    free(memory);
    text = text_over(NULL, 0);
    if (!page->write(asked, &text, &request->error)) return NULL;
    size_t size = text.length + GROWTH;
    memory = malloc(size);
    if (!memory) {
      error_refuse(&request->error, ERROR_MEMORY_FULL, NULL, "there is no memory for a page of %zu bytes", size);
      return NULL;
    }
    text = text_over(memory, size);
    written = page->write(asked, &text, &request->error);
  } while (written && !text_complete(&text));
  struct MHD_Response *response =
      written ? MHD_create_response_from_buffer(text.length, memory, MHD_RESPMEM_MUST_FREE) : NULL;
  if (!response) free(memory);
  request->sent_bytes = response ? (int64_t)text.length : 0;
  return response;
}

bool request_make_page(struct job *job) {
  struct request *request = request_of_job(job);
  const struct page *page = &request->service->pages[request->endpoint];
  struct page_asked asked = asked_of(request, page);
  return page->fill(&asked, job);
}

// NOLINTNEXTLINE(readability-non-const-parameter): the library's type
static ssize_t read_nothing(void *cls, uint64_t position, char *block, size_t most) {
  (void)cls, (void)position, (void)block, (void)most;
  return MHD_CONTENT_READER_END_OF_STREAM;
}

// An answer to HEAD, without a body. If the length is unknown (-1), the answer is not chunked but ends the connection:
// libmicrohttpd 0.9.75 would send the end of a chunked body after the head.
static struct MHD_Response *head_of_length(int64_t length) {
  uint64_t size = length < 0 ? MHD_SIZE_UNKNOWN : (uint64_t)length;
  struct MHD_Response *response = MHD_create_response_from_callback(size, 1, read_nothing, NULL, NULL);
  if (!response || length >= 0) return response;
  if (MHD_set_response_options(response, MHD_RF_HTTP_1_0_COMPATIBLE_STRICT, MHD_RO_END) == MHD_YES) return response;
  MHD_destroy_response(response);
  return NULL;
}

// For HEAD.
static struct MHD_Response *response_of_file(struct request *request, const struct page_asked *asked) {
  int64_t length;
  if (!asked->page->measure(asked, &length, &request->error)) return NULL;
  return head_of_length(length);
}

static struct MHD_Response *response_of_events(struct request *request, const struct page_asked *asked) {
  return strcmp(request->method, "HEAD") == 0 ? head_of_length(-1) : subscription_response(request, asked);
}

static const char *tag_of_page(const struct request *request, const struct page *page) {
  return page->tag_of ? page->tag_of(name_of(request, page)) : NULL;
}

struct tag_search {
  const char *tag;
  bool found;
};

// A tag is a hash in quotation marks, so strstr does not find it within another tag.
static enum MHD_Result find_tag(void *cls, enum MHD_ValueKind kind, const char *name, const char *value) {
  struct tag_search *search = cls;
  (void)kind;
  if (value && strcasecmp(name, "If-None-Match") == 0)
    search->found = search->found || strcmp(value, "*") == 0 || strstr(value, search->tag);
  return search->found ? MHD_NO : MHD_YES;
}

// Whether the client has the page already. Several If-None-Match headers are one list.
static bool client_has(const struct request *request, const char *tag) {
  struct tag_search search = {tag, false};
  if (tag) MHD_get_connection_values(request->connection, MHD_HEADER_KIND, find_tag, &search);
  return search.found;
}

static struct MHD_Response *response_of_problem(struct request *request) {
  char memory[PROBLEM_TEXT_SIZE];
  struct text text = text_over(memory, sizeof memory);
  if (!request->error.kind) error_refuse(&request->error, ERROR_DEFECT, NULL, "an answer could not be made");
  problem_render(&request->error, request->style, request->id, &text);
  request->sent_bytes = (int64_t)text.length;
  return text_complete(&text) ? MHD_create_response_from_buffer(text.length, memory, MHD_RESPMEM_MUST_COPY) : NULL;
}

static bool add_header(struct MHD_Response *response, const char *name, const char *value) {
  return !value || MHD_add_response_header(response, name, value) == MHD_YES;
}

static bool add_job_headers(struct MHD_Response *response, const struct request *request) {
  const struct job *job = &request->job;
  bool refused = request->error.kind;
  const char *coding = job->result.coding && !refused ? coding_name(job->result.coding) : NULL;
  size_t head = job->infer && !refused ? job->infer->answer_head : 0;
  char timing[SERVER_TIMING_SIZE], head_bytes[24];
  struct text text = text_over(timing, sizeof timing);
  answer_server_timing(&job->result.answer, &text);
  snprintf(head_bytes, sizeof head_bytes, "%zu", head);
  return text_complete(&text) && add_header(response, "Server-Timing", timing) &&
         add_header(response, "Content-Encoding", coding) &&
         add_header(response, "Vary", coding ? "Accept-Encoding" : NULL) &&
         add_header(response, "Inference-Header-Content-Length", head ? head_bytes : NULL);
}

static bool add_error_headers(struct MHD_Response *response, const struct request *request) {
  enum error_kind kind = request->error.kind;
  char seconds[16];
  int retry_after = problem_info(kind)->retry_after;
  snprintf(seconds, sizeof seconds, "%d", retry_after);
  return add_header(response, "Retry-After", retry_after ? seconds : NULL) &&
         add_header(response, "Accept-Encoding", request->job.spec.coding == CODINGS ? CODINGS_OF_BODIES : NULL) &&
         add_header(response, "WWW-Authenticate", access_challenge(kind)) &&
         add_header(response, "Allow", kind == ERROR_METHOD_NOT_ALLOWED ? route_allow(request->endpoint) : NULL);
}

static bool add_headers(struct MHD_Response *response, const struct request *request, const char *media_type) {
  // From the stop signal on, answers close their connections, so that clients move to other servers.
  bool leaving = atomic_load(&request->service->phase) >= PHASE_LEAVING;
  char traceparent[TRACEPARENT_LENGTH + 1];
  trace_write(&request->trace, traceparent);
  return add_header(response, "X-Request-Id", request->id) && add_header(response, "traceparent", traceparent) &&
         add_header(response, "Content-Type", request->unchanged ? NULL : media_type) &&
         (!request->job.result.answered || add_job_headers(response, request)) &&
         (!request->error.kind || add_error_headers(response, request)) &&
         add_header(response, "Connection", leaving ? "close" : NULL);
}

static bool add_page_headers(struct MHD_Response *response, const struct request *request, const struct page *page) {
  bool good = add_header(response, "ETag", tag_of_page(request, page));
  for (const struct page_header *header = page->headers; good && header && header->name; header++)
    good = add_header(response, header->name, header->value);
  return good;
}

static const char *answer_media_type(const struct request *request) {
  const struct job *job = &request->job;
  if (job->spec.make) return media_type_of_page(request, &request->service->pages[request->endpoint]);
  if (!job->infer) return job->result.kind->media_type;
  return (job->infer->answer_head ? &infer_binary : &infer_json)->media_type;
}

// Before the answer is sent, so that the client's next request sees the count.
static void count_model(const struct request *request) {
  const struct job *job = &request->job;
  if (job->infer)
    models_count(&request->service->counters.models, job->infer->model,
                 request->error.kind ? NULL : &job->result.answer, clock_ns() - request->started_ns);
}

enum MHD_Result request_reply(struct request *request) {
  const struct page *page = &request->service->pages[request->endpoint];
  const char *media_type;
  struct MHD_Response *response = NULL;
  int64_t memory = 0;
  if (request->job.result.answered) {
    memory = (int64_t)request->job.held.output->capacity;  // before the response owns the buffer
    media_type = answer_media_type(request);
    response = response_of_output(request);
  } else if (!request->error.kind && (page->write || page->fill || page->follow)) {
    struct page_asked asked = asked_of(request, page);
    media_type = media_type_of_page(request, page);
    response = page->fill     ? response_of_file(request, &asked)
               : page->follow ? response_of_events(request, &asked)
                              : response_of_page(request, &asked);
    request->unchanged = response && client_has(request, tag_of_page(request, page));
    if (request->unchanged) request->sent_bytes = 0;  // with 304 the library sends only the body's length
  }
  if (!response) {
    media_type = problem_media_type(request->style);
    response = response_of_problem(request);
  }
  if (!response) return MHD_NO;
  count_model(request);
  enum MHD_Result result = MHD_NO;
  bool shown = !request->error.kind && !request->job.result.answered;
  if (add_headers(response, request, media_type) && (!shown || add_page_headers(response, request, page))) {
    unsigned status = (unsigned)request_status(request);
    request->reply_ns = clock_ns();
    peer_reply_begin(request->peer, memory, request->reply_ns);
    result = MHD_queue_response(request->connection, status, response);
  }
  MHD_destroy_response(response);
  return result;
}
