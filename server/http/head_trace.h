// Where the parts of a request lie in the library's memory: gaps show bytes that the library has silently cut out. Runs
// on the I/O thread of the request.
//
// Up to 0.9.99 the library leaves a request where it was received, writes NULs over the separators of the head, and
// passes pointers to the parts. One byte lies between the target and the version, and two bytes, which were CR LF,
// after the version and each header. Any other distance means that other servers may read the head differently: a part
// has a NUL, a header is folded, a header without a name ends the head, or a line ends in a bare LF. The line before a
// chunk's data is still there too if both were received together. tests/library checks this for each version.
#ifndef VOXELD_HEAD_TRACE_H
#define VOXELD_HEAD_TRACE_H

#include <stdbool.h>
#include <stddef.h>

struct head_trace {
  const char *next;  // where the next part must begin
  bool broken;       // a part began elsewhere
};

// `target_end`: the end of the target that MHD_OPTION_URI_LOG_CALLBACK passes.
void head_trace_begin(struct head_trace *trace, const char *target_end, const char *version);
// For each header in turn.
void head_trace_header(struct head_trace *trace, const char *name, size_t name_size, const char *value,
                       size_t value_size);
// Whether the head, which ends at `end`, lies as it was sent.
bool head_trace_end(const struct head_trace *trace, const char *end);

// Whether the line before the chunk's `data` ends in CR LF and has no control byte, and the chunk before that line ends
// in CR LF too. `start`: the head's end. Checks what lies between `start` and `data`.
bool head_trace_chunk_is_sound(const char *start, const char *data);

#endif
