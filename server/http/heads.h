// The headers of a request that decide how it is served, found in one walk over all of them. (The library's look-up by
// name returns the first header of a name, and does not check names.)
//
// The walk also cuts the blanks after each value, except Transfer-Encoding's. Runs on the I/O thread that owns the
// request. The texts are in the library's memory, and stay as long as the request.
#ifndef VOXELD_HEADS_H
#define VOXELD_HEADS_H

#include <microhttpd.h>
#include <stdbool.h>

#include "server/http/head_trace.h"

// LONGEST_HEADER: bytes of a header's value. Low, because the I/O thread reads lists in headers repeatedly.
enum { FORWARDED_MAX = 8, LONGEST_HEADER = 8192 };

enum head_name {
  HEAD_ACCEPT,
  HEAD_ACCEPT_ENCODING,
  HEAD_AUTHORIZATION,
  HEAD_ENCODING,  // Content-Encoding other than identity
  HEAD_EXPECT,
  HEAD_FORWARDED,
  HEAD_FORWARDED_FOR,  // X-Forwarded-For
  HEAD_HOST,
  HEAD_INFERENCE_LENGTH,  // Inference-Header-Content-Length
  HEAD_LENGTH,            // Content-Length
  HEAD_ORIGIN,
  HEAD_REQUEST_ID,  // X-Request-Id
  HEAD_SITE,        // Sec-Fetch-Site
  HEAD_TRACEPARENT,
  HEAD_TRANSFER,  // Transfer-Encoding
  HEAD_TYPE,      // Content-Type
  HEAD_VIA,
  HEAD_NAMES
};

struct heads {
  struct head_trace *trace;
  int count[HEAD_NAMES];                 // how many headers of each name there are
  const char *value[HEAD_NAMES];         // of the first header of that name; NULL, or "" for Host, if there is none
  const char *forwarded[FORWARDED_MAX];  // the last lines of X-Forwarded-For
  int forwards;
  // A header's name is empty or has a byte that is not allowed, such as the blank in "Content-Length ", or its value
  // has a CR. Other servers may read such headers differently.
  bool odd;
  const char *too_long;  // the name of a header that is longer than LONGEST_HEADER; NULL: none
};

// Notes in `trace` where each header lies.
void heads_collect(struct heads *heads, struct MHD_Connection *connection, struct head_trace *trace);

#endif
