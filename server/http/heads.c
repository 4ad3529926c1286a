// The walk over a request's headers; see heads.h.
#include "server/http/heads.h"

#include <string.h>
#include <strings.h>

#include "server/http/library.h"

static void add_forwarded(struct heads *heads, const char *line) {
  if (heads->forwards == FORWARDED_MAX)
    memmove(heads->forwarded, heads->forwarded + 1, sizeof *heads->forwarded * --heads->forwards);
  heads->forwarded[heads->forwards++] = line;
}

static enum MHD_Result collect(void *cls, enum MHD_ValueKind kind, const char *name, size_t name_size,
                               const char *value, size_t value_size) {
  static const char token[] = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  struct heads *heads = cls;
  (void)kind;
  if (name_size == 0 || strspn(name, token) != name_size || memchr(value, '\r', value_size)) heads->odd = true;
  if (heads->odd) return MHD_NO;  // one is enough to refuse the request
  head_trace_header(heads->trace, name, name_size, value, value_size);
  if (value_size > LONGEST_HEADER) heads->too_long = name;
  // By now the library has judged where the body ends. It takes a coding with blanks behind it for another coding.
  if (strcasecmp(name, "Transfer-Encoding") != 0) library_cut_blanks(value, value_size);
  if (strcasecmp(name, "Host") == 0) {
    heads->hosts++;
    heads->host = value;
  } else if (strcasecmp(name, "Content-Length") == 0) {
    heads->lengths++;
    heads->length = value;
  } else if (strcasecmp(name, "Transfer-Encoding") == 0) {
    heads->codings++;
    heads->coding = value;
  } else if (strcasecmp(name, "Authorization") == 0) {
    heads->authorizations++;
    heads->authorization = value;
  } else if (strcasecmp(name, "Content-Encoding") == 0 && strcasecmp(value, "identity") != 0) {
    heads->encodings++;
    heads->encoding = value;
  } else if (strcasecmp(name, "Accept-Encoding") == 0) {
    heads->accepts++;
    heads->accept = value;
  } else if (strcasecmp(name, "Inference-Header-Content-Length") == 0) {
    heads->inference_heads++;
    heads->inference_head = value;
  } else if (strcasecmp(name, "X-Forwarded-For") == 0) {
    add_forwarded(heads, value);
    heads->relayed = true;
  } else if (strcasecmp(name, "Forwarded") == 0 || strcasecmp(name, "Via") == 0) {
    heads->relayed = true;
  } else if (strcasecmp(name, "traceparent") == 0) {
    heads->traces++;
    heads->traceparent = value;
  } else if (strcasecmp(name, "Origin") == 0) {
    heads->origin = heads->origin ? "" : value;
  } else if (strcasecmp(name, "Sec-Fetch-Site") == 0) {
    heads->site = heads->site ? "" : value;
  }
  return MHD_YES;
}

void heads_collect(struct heads *heads, struct MHD_Connection *connection, struct head_trace *trace) {
  *heads = (struct heads){.trace = trace, .host = ""};
  MHD_get_connection_values_n(connection, MHD_HEADER_KIND, collect, heads);
}
