// How a request lies in the library's memory. This shows what the library changes in it and does not tell.
//
// Up to 0.9.99 the library leaves a request where it was received. It writes NULs over what separates the parts of the
// head, and hands over pointers to the parts. Between the target and the version there is then one byte, and behind the
// version and each header two, which were CR LF. Any other distance means that the library read the head otherwise than
// another server would: a part has a NUL, a header is folded, a header without a name ends the head, or a line ends in
// a bare LF. Likewise the line before a chunk's data is still there, as long as both were received together.
//
// The interface does not promise any of this: tests/library rehearses it for each version. Only pointers into the
// request are compared, and only bytes of the request are read.
#ifndef VOXELD_HEAD_TRACE_H
#define VOXELD_HEAD_TRACE_H

#include <stdbool.h>
#include <stddef.h>

struct head_trace {
  const char *next;  // where the next part must begin
  bool broken;       // a part began elsewhere
};

// `target_end`: where the target, as MHD_OPTION_URI_LOG_CALLBACK gives it, ends.
void head_trace_begin(struct head_trace *trace, const char *target_end, const char *version);
// The next header, in the order in which they came.
void head_trace_header(struct head_trace *trace, const char *name, size_t name_size, const char *value,
                       size_t value_size);
// The head ends at `end`. Whether it lies as it was sent.
bool head_trace_end(const struct head_trace *trace, const char *end);

// Whether the line before the chunk's `data` ends in CR LF and has no control byte, which its extension may hide, and
// the data of the chunk before it ends in CR LF too, as far as they lie between `start` and `data`. `start`: the head's
// end, from which on the body is received.
bool head_trace_chunk_is_sound(const char *start, const char *data);

#endif
