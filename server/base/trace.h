// The traceparent header of W3C Trace Context (w3.org/TR/trace-context): a request's place in its client's trace.
//
// A request continues its client's trace with a span of its own. Without a valid traceparent it begins a new trace. Any
// thread.
#ifndef VOXELD_TRACE_H
#define VOXELD_TRACE_H

#include <stdbool.h>

enum { TRACEPARENT_LENGTH = 55 };

struct trace {
  char trace_id[33];   // 32 lower-case hexadecimal digits, not all 0
  char span_id[17];    // the request's span
  char parent_id[17];  // the client's span; "" if it sent none
  bool sampled;        // the client records its trace
};

// Begins the request's span. `traceparent`: the header's value; NULL without exactly one.
void trace_begin(struct trace *trace, const char *traceparent);

static inline bool trace_is_clients(const struct trace *trace) { return trace->parent_id[0] != '\0'; }

// For the answer.
void trace_write(const struct trace *trace, char out[TRACEPARENT_LENGTH + 1]);

#endif
