// See heads.h.
#include "server/http/heads.h"

#include <string.h>
#include <strings.h>

#include "server/http/library.h"

static const char *const names[HEAD_NAMES] = {[HEAD_ACCEPT] = "Accept",
                                              [HEAD_ACCEPT_ENCODING] = "Accept-Encoding",
                                              [HEAD_AUTHORIZATION] = "Authorization",
                                              [HEAD_ENCODING] = "Content-Encoding",
                                              [HEAD_EXPECT] = "Expect",
                                              [HEAD_FORWARDED] = "Forwarded",
                                              [HEAD_FORWARDED_FOR] = "X-Forwarded-For",
                                              [HEAD_HOST] = "Host",
                                              [HEAD_INFERENCE_LENGTH] = "Inference-Header-Content-Length",
                                              [HEAD_LENGTH] = "Content-Length",
                                              [HEAD_ORIGIN] = "Origin",
                                              [HEAD_REQUEST_ID] = "X-Request-Id",
                                              [HEAD_SITE] = "Sec-Fetch-Site",
                                              [HEAD_TRACEPARENT] = "traceparent",
                                              [HEAD_TRANSFER] = "Transfer-Encoding",
                                              [HEAD_TYPE] = "Content-Type",
                                              [HEAD_VIA] = "Via"};

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
  if (heads->odd) return MHD_NO;  // one odd header is enough to refuse the request
  head_trace_header(heads->trace, name, name_size, value, value_size);
  if (value_size > LONGEST_HEADER) heads->too_long = name;
  int i = 0;
  while (i < HEAD_NAMES && strcasecmp(name, names[i]) != 0) i++;
  // If blanks follow the value of Transfer-Encoding, the library saw no coding; read_framing must see these blanks.
  if (i != HEAD_TRANSFER) library_cut_blanks(value, value_size);
  if (i == HEAD_NAMES || (i == HEAD_ENCODING && strcasecmp(value, "identity") == 0)) return MHD_YES;
  if (i == HEAD_FORWARDED_FOR) add_forwarded(heads, value);
  if (heads->count[i]++ == 0) heads->value[i] = value;
  return MHD_YES;
}

void heads_collect(struct heads *heads, struct MHD_Connection *connection, struct head_trace *trace) {
  *heads = (struct heads){.trace = trace, .value = {[HEAD_HOST] = ""}};
  MHD_get_connection_values_n(connection, MHD_HEADER_KIND, collect, heads);
}
