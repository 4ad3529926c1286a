// Errors as clients see them, one row for each kind. An error is rendered as application/problem+json (RFC 9457).
// Clients of the KServe v2 protocol get it as application/json, with the additional member `error`.
//
// A function that can refuse takes the caller's struct error and returns false after error_refuse. Any thread.
#ifndef VOXELD_PROBLEM_H
#define VOXELD_PROBLEM_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>

#include "api/base/text.h"
#include "kernels/error.h"

// X(kind, status, name, seconds for Retry-After or 0, title). The first rows match enum vx_status.
#define PROBLEMS(X)                                                                                                    \
  X(IMPOSSIBLE, 422, "impossible", 0, "The parameters are well-formed but cannot be satisfied")                        \
  X(MEMORY_FULL, 503, "memory-full", 1, "The memory budget is spent")                                                  \
  X(DEFECT, 500, "defect", 0, "The server failed; this is a defect")                                                   \
  X(DEADLINE, 504, "deadline", 0, "The job was not done at its deadline")                                              \
  X(MODEL_FAILED, 503, "model-failed", 0, "The model cannot be used")                                                  \
  X(BAD_REQUEST, 400, "bad-request", 0, "The request is malformed or ambiguous")                                       \
  X(BAD_PARAMETER, 400, "bad-parameter", 0, "A parameter is unknown, repeated or out of bounds")                       \
  X(BAD_BODY, 400, "bad-body", 0, "The body does not match the parameters")                                            \
  X(UNAUTHORIZED, 401, "unauthorized", 0, "Credentials are needed")                                                    \
  X(INVALID_TOKEN, 401, "invalid-token", 0, "The token is unknown")                                                    \
  X(FORBIDDEN, 403, "forbidden", 0, "The client certificate, the Host or the web page is not accepted")                \
  X(NOT_FOUND, 404, "not-found", 0, "There is nothing at this path")                                                   \
  X(METHOD_NOT_ALLOWED, 405, "method-not-allowed", 0, "This path does not take this method")                           \
  X(BODY_STALLED, 408, "body-stalled", 0, "The body came too slowly")                                                  \
  X(STREAM_TIME, 409, "stream-time", 0, "The sweep is older than the newest of its stream")                            \
  X(STREAM_SHAPE, 409, "stream-shape", 0, "The sweep has other columns than its stream")                               \
  X(SUPERSEDED, 409, "superseded", 0, "A newer request of the same name came while this one waited")                   \
  X(TOO_OLD, 409, "too-old", 0, "The points are older than max_age_ms")                                                \
  X(LENGTH_REQUIRED, 411, "length-required", 0, "The request has no Content-Length and is not chunked")                \
  X(BODY_TOO_LARGE, 413, "body-too-large", 0, "The body is over the limit")                                            \
  X(UNSUPPORTED_MEDIA, 415, "unsupported-media-type", 0, "The Content-Type or Content-Encoding is not accepted")       \
  X(NOT_RIGID, 422, "not-rigid", 0, "The pose is not a rigid motion")                                                  \
  X(CLIENT_OVER_SHARE, 429, "client-over-share", 1, "The client already has its share of the server")                  \
  X(HEAD_TOO_LARGE, 431, "head-too-large", 0,                                                                          \
    "The query has too many parameters, or the query or a header is too long")                                         \
  X(UNSUPPORTED, 501, "unsupported", 0, "The service does not do this")                                                \
  X(NO_SHARED_MEMORY, 501, "no-shared-memory", 0,                                                                      \
    "This client cannot share memory, or cannot share this kind of memory")                                            \
  X(REGION_BUSY, 503, "region-busy", 1, "A job still writes to the region")                                            \
  X(QUEUE_FULL, 503, "queue-full", 1, "The queue is full")                                                             \
  X(CONNECTIONS_FULL, 503, "connections-full", 1, "The connection limit is reached")                                   \
  X(NOT_READY, 503, "not-ready", 1, "The server is starting")                                                          \
  X(DRAINING, 503, "draining", 1, "The server is stopping")

enum error_kind {
  ERROR_NONE,
#define X(kind, status, name, retry, title) ERROR_##kind,
  PROBLEMS(X)
#undef X
      ERROR_COUNT
};

static_assert((int)ERROR_IMPOSSIBLE == VX_REFUSED && (int)ERROR_MEMORY_FULL == VX_OUT_OF_MEMORY &&
                  (int)ERROR_DEFECT == VX_DEVICE_LOST && (int)ERROR_DEADLINE == VX_STOPPED &&
                  (int)ERROR_MODEL_FAILED == VX_FAILED,
              "each status of a computation that failed is an error kind too");

// Bytes of the longest document. A byte may be escaped as six bytes, and KServe's form contains the detail twice.
enum { PROBLEM_TEXT_SIZE = 6 * (2 * sizeof((struct error *)0)->text + sizeof((struct error *)0)->parameter) + 1024 };

struct problem_info {
  int status;
  const char *name;
  int retry_after;  // seconds; 0 = none
  const char *title;
};

enum problem_style { PROBLEM_STYLE_HTTP, PROBLEM_STYLE_KSERVE };

const struct problem_info *problem_info(enum error_kind kind);
// The status of the answer. KServe's protocol has 400 in place of 422, and 501 in place of 415.
int problem_status(enum error_kind kind, enum problem_style style);
// The reason phrase of the status line.
const char *problem_phrase(int status);
const char *problem_media_type(enum problem_style style);

// Writes the error. Returns false, so that a refusal is one statement. `parameter` may be NULL.
__attribute__((format(printf, 4, 5))) bool error_refuse(struct error *error, enum error_kind kind,
                                                        const char *parameter, const char *format, ...);

// Writes the document. `request_id` has up to 128 bytes, and may be "".
void problem_render(const struct error *error, enum problem_style style, const char *request_id, struct text *out);

#endif
