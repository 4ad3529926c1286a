// See lines.h.
#include "api/wire/lines.h"

#include <string.h>
#include <strings.h>

enum { WORD = 4 };  // so many bytes of text count as one row for vx_stopped

struct lines lines_over(const char *bytes, size_t size, int64_t number, struct vx_stop *stop) {
  const char *end = bytes + size;
  const char *feed = memchr(bytes, '\n', size);
  const char *back = memchr(bytes, '\r', feed ? (size_t)(feed - bytes) : size);
  const char *last = feed ? feed : end;
  while (back && back + 1 < last && back[1] == '\r') back++;
  bool alone = back && back + 1 != last;
  return (struct lines){bytes, end, number, stop, alone ? '\r' : '\n'};
}

bool lines_next(struct lines *lines, struct span *line) {
  if (lines->at == lines->end) return false;
  const char *feed = memchr(lines->at, lines->last, (size_t)(lines->end - lines->at));
  const char *end = feed ? feed : lines->end;
  *line = (struct span){lines->at, (size_t)(end - lines->at)};
  if (vx_stopped(lines->stop, 1 + (int64_t)(line->length / WORD))) return false;
  if (line->length && end[-1] == '\r') line->length--;
  lines->at = feed ? feed + 1 : lines->end;
  lines->number++;
  return true;
}

static bool is_blank(char byte) { return byte == ' ' || byte == '\t' || byte == '\r' || byte == '\n'; }

bool span_word(struct span *rest, struct span *word) {
  const char *at = rest->at, *end = rest->at + rest->length;
  while (at < end && is_blank(*at)) at++;
  word->at = at;
  while (at < end && !is_blank(*at)) at++;
  word->length = (size_t)(at - word->at);
  *rest = (struct span){at, (size_t)(end - at)};
  return word->length;
}

bool span_is(const struct span *span, const char *text) {
  return span->length == strlen(text) && memcmp(span->at, text, span->length) == 0;
}

bool span_is_in_any_case(const struct span *span, const char *text) {
  return span->length == strlen(text) && strncasecmp(span->at, text, span->length) == 0;
}

bool span_number(const struct span *span, int64_t most, int64_t *out) {
  *out = 0;
  for (size_t i = 0; i < span->length; i++) {
    int digit = span->at[i] - '0';
    if (digit < 0 || digit > 9 || digit > most || *out > (most - digit) / 10) return false;
    *out = *out * 10 + digit;
  }
  return span->length;
}
