// Where a request belongs in its client's trace: W3C Trace Context, the traceparent header (w3.org/TR/trace-context).
//
// A client's trace is taken over and our own span put into it; without a sound traceparent a new trace is begun. Ids
// are random and drawn from a generator of the thread, without a system call a request. Any thread.
#ifndef VOXELD_TRACE_H
#define VOXELD_TRACE_H

#include <stdbool.h>

enum { TRACEPARENT_LENGTH = 55 };

struct trace {
  char trace_id[33];   // 32 lower-case hexadecimal digits, not all 0
  char span_id[17];    // ours
  char parent_id[17];  // the client's span; "" where it sent none
  bool sampled;        // the client records its trace
};

// Begins our span. `traceparent` is the header's value; NULL where there is none, or more than one.
void trace_begin(struct trace *trace, const char *traceparent);

static inline bool trace_is_clients(const struct trace *trace) { return trace->parent_id[0] != '\0'; }

// The traceparent of our span, for the answer.
void trace_write(const struct trace *trace, char out[TRACEPARENT_LENGTH + 1]);

#endif
