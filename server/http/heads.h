// The headers of a request that decide whether and how it is served, found in one walk over all of them.
//
// The library's look-up by name does not do: it returns only the first header of that name, and does not check names.
// The walk also cuts the blanks behind each value, for whoever looks a header up later. Runs on the IO thread that owns
// the request. The texts are the library's, and stay as long as the request.
#ifndef VOXELD_HEADS_H
#define VOXELD_HEADS_H

#include <microhttpd.h>
#include <stdbool.h>

#include "server/http/head_trace.h"

// LONGEST_HEADER: bytes of a header's value. Lists in headers are read on the I/O thread, several times.
enum { FORWARDED_MAX = 8, LONGEST_HEADER = 8192 };

struct heads {
  struct head_trace *trace;
  int hosts, lengths, codings;  // how many headers of each name there are; likewise below
  const char *host;             // "" without one
  const char *length, *coding;
  int encodings;
  const char *encoding;  // a Content-Encoding other than identity
  int accepts;
  const char *accept;  // Accept-Encoding
  int traces;
  const char *traceparent;
  int inference_heads;
  const char *inference_head;  // Inference-Header-Content-Length
  const char *origin, *site;   // Origin and Sec-Fetch-Site; "" if repeated
  int authorizations;
  const char *authorization;
  int forwards;
  const char *forwarded[FORWARDED_MAX];  // the last lines of X-Forwarded-For
  bool relayed;                          // there is a header that proxies add
  // A header's name is empty or has a byte that is not allowed, or its value has a CR, which to some servers ends a
  // line. ("Content-Length " with a blank is a length to some servers, but not to the library.)
  bool odd;
  const char *too_long;  // the name of a header that is longer than LONGEST_HEADER; NULL: there is none
};

// Fills `heads`, and tells `layout` where each header lies.
void heads_collect(struct heads *heads, struct MHD_Connection *connection, struct head_trace *trace);

#endif
