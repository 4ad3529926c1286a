// Lines and words of text in a body, without copies.
//
// Any thread; nothing here allocates.
#ifndef VOXELD_LINES_H
#define VOXELD_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/stop.h"

// A part of a body; not NUL-terminated.
struct span {
  const char *at;
  size_t length;
};

struct lines {
  const char *at, *end;
  int64_t number;        // of the line that was read last, from 1; 0 before
  struct vx_stop *stop;  // then there is no next line
};

// Reads the next line, without its LF or CR LF. False at the end.
bool lines_next(struct lines *lines, struct span *line);
// Takes the first word off the rest of a line; blanks and tabs stand between words. False if none is left.
bool span_word(struct span *rest, struct span *word);
bool span_is(const struct span *span, const char *text);
// Reads the span as a whole number, 0 or more. False if it is none, or over `most`.
bool span_number(const struct span *span, int64_t most, int64_t *out);

enum { SPAN_SHOWN = 40 };
// Arguments for %.*s, so that a message shows the span, or its beginning.
#define SPAN_ARGS(span) (int)((span).length < SPAN_SHOWN ? (span).length : SPAN_SHOWN), (span).at

#endif
