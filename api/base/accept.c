// Media ranges and their qualities; see accept.h.
#include "api/base/accept.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

static const char *skip_blanks(const char *text) { return text + strspn(text, " \t"); }

// The first byte that occurs in `ends`, or the end of the text. Bytes between quotes are skipped.
static const char *reach(const char *text, const char *ends) {
  bool quoted = false;
  for (; *text; text++) {
    if (*text == '"') quoted = !quoted;
    if (quoted && *text == '\\' && text[1]) text++;
    if (!quoted && strchr(ends, *text)) break;
  }
  return text;
}

// The weight from 0 to 1, with up to three decimals, in thousandths; -1 if the text up to `end` is malformed.
static int read_weight(const char *text, const char *end) {
  int value = 0, scale = 1000;
  if (text == end || (*text != '0' && *text != '1')) return -1;
  value = (*text++ - '0') * scale;
  if (text < end && *text == '.') {
    for (text++; text < end && *text >= '0' && *text <= '9' && scale > 1; text++) {
      scale /= 10;
      value += (*text - '0') * scale;
    }
  }
  return text == end && value <= 1000 ? value : -1;
}

static const char *trim(const char *text, const char *end) {
  while (end > text && strchr(" \t", end[-1])) end--;
  return end;
}

// 3: the range is the type itself; 2: it covers all types with the same first part; 1: all types; 0: not this type.
static int precision(const char *range, size_t length, const char *type) {
  size_t major = strcspn(type, "/") + 1;
  if (length == 3 && strncmp(range, "*/*", 3) == 0) return 1;
  if (length == major + 1 && range[major] == '*' && strncasecmp(range, type, major) == 0) return 2;
  return length == strlen(type) && strncasecmp(range, type, length) == 0 ? 3 : 0;
}

// 2: the range is the coding itself; 1: it covers all codings; 0: not this coding.
static int coding_precision(const char *range, size_t length, const char *coding) {
  if (length == 1 && *range == '*') return 1;
  return length == strlen(coding) && strncasecmp(range, coding, length) == 0 ? 2 : 0;
}

static int quality_of(const char *accept, const char *what,
                      int (*precision_of)(const char *range, size_t length, const char *what)) {
  int quality = 0, best = 0;
  while (*(accept = skip_blanks(accept))) {
    const char *end = reach(accept, ","), *name_end = reach(accept, ",;");
    int covers = precision_of(accept, (size_t)(trim(accept, name_end) - accept), what), weight = 1000;
    for (const char *at = name_end; at < end && weight >= 0;) {
      const char *parameter = skip_blanks(at + 1);
      at = reach(parameter, ",;");
      if (strncasecmp(parameter, "q=", 2) == 0) weight = read_weight(parameter + 2, trim(parameter, at));
    }
    if (weight >= 0 && covers > best) {
      best = covers;
      quality = weight;
    }
    accept = *end ? end + 1 : end;
  }
  return quality;
}

int accept_quality(const char *accept, const char *type) { return quality_of(accept, type, precision); }

int accept_coding(const char *accept, const char *coding) { return quality_of(accept, coding, coding_precision); }
