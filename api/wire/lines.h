// Lines and words of text in a body, without copies. Any thread; nothing here allocates.
#ifndef VOXELD_LINES_H
#define VOXELD_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/stop.h"

// Part of a body; not NUL-terminated.
struct span {
  const char *at;
  size_t length;
};

struct lines {
  const char *at, *end;
  int64_t number;        // of the line that was read last, from 1; 0 before the first
  struct vx_stop *stop;  // once stopped, there is no next line
  char last;             // ends a line: LF or CR
};

// The lines of `bytes`; the first is line `number` + 1. All end as it does: in LF after any number of CR, or in CR.
struct lines lines_over(const char *bytes, size_t size, int64_t number, struct vx_stop *stop);
// Reads the next line, without the LF or CR that ends it, and without one CR before that LF. False if there is none.
bool lines_next(struct lines *lines, struct span *line);
// Takes the first word from the rest of a line. Words are separated by blanks, tabs, CR and LF. False if none is left.
bool span_word(struct span *rest, struct span *word);
bool span_is(const struct span *span, const char *text);
bool span_is_in_any_case(const struct span *span, const char *text);
// Reads a whole number from 0 to `most`. False if the span is none.
bool span_number(const struct span *span, int64_t most, int64_t *out);

enum { SPAN_SHOWN = 40 };
// For %.*s in errors: the span, or its beginning.
#define SPAN_ARGS(span) (int)((span).length < SPAN_SHOWN ? (span).length : SPAN_SHOWN), (span).at

#endif
