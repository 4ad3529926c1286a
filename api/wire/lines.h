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
  int64_t number;        // number of the last line that was read, from 1; 0 before the first
  struct vx_stop *stop;  // once stopped, there is no next line
  char last;             // the byte that ends a line: LF or CR
};

// The lines of `bytes`, which follow the line `number`. All lines end as the first one does: either in LF, after any
// number of CR, or in CR alone.
struct lines lines_over(const char *bytes, size_t size, int64_t number, struct vx_stop *stop);
// Reads the next line, without its end; of several CR before an LF, only the last is left out. False if there is none.
bool lines_next(struct lines *lines, struct span *line);
// Takes the first word from the rest of a line. Blanks, tabs, CR and LF separate words. False if no word is left.
bool span_word(struct span *rest, struct span *word);
bool span_is(const struct span *span, const char *text);
bool span_is_in_any_case(const struct span *span, const char *text);
// Reads the span as a whole number from 0 to `most`. False if the span is not such a number.
bool span_number(const struct span *span, int64_t most, int64_t *out);

enum { SPAN_SHOWN = 40 };
// Arguments for %.*s: the span, or its beginning, for an error.
#define SPAN_ARGS(span) (int)((span).length < SPAN_SHOWN ? (span).length : SPAN_SHOWN), (span).at

#endif
