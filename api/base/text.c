// See text.h.
#include "api/base/text.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void text_append_plain(struct text *text, const char *bytes, size_t length) {
  if (text->length < text->capacity) {
    size_t room = text->capacity - text->length - 1;
    size_t fits = length < room ? length : room;
    memcpy(text->data + text->length, bytes, fits);
    text->data[text->length + fits] = '\0';
  }
  text->length += length;
}

// Length of a well-formed UTF-8 sequence of two or more bytes (RFC 3629); 0 if none begins here.
static size_t utf8_sequence(const unsigned char *bytes, size_t length) {
  static const struct {
    unsigned char mask, lead;
    size_t length;
    uint32_t least;
  } forms[] = {{0xe0, 0xc0, 2, 0x80}, {0xf0, 0xe0, 3, 0x800}, {0xf8, 0xf0, 4, 0x10000}};
  for (size_t form = 0; form < sizeof forms / sizeof *forms; form++) {
    if ((bytes[0] & forms[form].mask) != forms[form].lead) continue;
    if (forms[form].length > length) return 0;
    uint32_t point = bytes[0] & (unsigned char)~forms[form].mask;
    for (size_t i = 1; i < forms[form].length; i++) {
      if ((bytes[i] & 0xc0) != 0x80) return 0;
      point = point << 6 | (bytes[i] & 0x3f);
    }
    bool valid = point >= forms[form].least && point <= 0x10ffff && (point < 0xd800 || point > 0xdfff);
    return valid ? forms[form].length : 0;
  }
  return 0;
}

static bool is_plain(unsigned char byte) { return byte >= 0x20 && byte < 0x7f && byte != '"' && byte != '\\'; }

// Escapes the bytes once for each open string, the innermost first.
void text_append(struct text *text, const char *bytes, size_t length) {
  const unsigned char *input = (const unsigned char *)bytes;
  size_t start = 0, i = 0;
  if (!text->json.quotes) {
    text_append_plain(text, bytes, length);
    return;
  }
  for (;;) {
    while (i < length && is_plain(input[i])) i++;
    if (i == length) break;
    size_t sequence = input[i] < 0x80 ? 0 : utf8_sequence(input + i, length - i);
    i += sequence;
    if (sequence) continue;
    char escape[8] = {'\\', bytes[i]};
    if (input[i] >= 0x80)
      memcpy(escape, "\xef\xbf\xbd", 4);
    else if (bytes[i] != '"' && bytes[i] != '\\')
      snprintf(escape, sizeof escape, "\\u%04x", input[i]);
    text_append_plain(text, bytes + start, i - start);
    text->json.quotes--;
    text_append(text, escape, strlen(escape));
    text->json.quotes++;
    start = ++i;
  }
  text_append_plain(text, bytes + start, length - start);
}

void text_put(struct text *text, const char *string) { text_append(text, string, strlen(string)); }

void text_printf(struct text *text, const char *format, ...) {
  char piece[512];
  bool quoted = text->json.quotes > 0;
  size_t room = text->length < text->capacity ? text->capacity - text->length : 0;
  va_list arguments;
  va_start(arguments, format);
  int length = quoted ? vsnprintf(piece, sizeof piece, format, arguments)
                      : vsnprintf(room ? text->data + text->length : NULL, room, format, arguments);
  va_end(arguments);
  if (length < 0 || (quoted && (size_t)length >= sizeof piece))
    text->cut = true;
  else if (quoted)
    text_append(text, piece, (size_t)length);
  else
    text->length += (size_t)length;
}

// printf would take a quarter of the time of a small request, whose answer has about a hundred numbers.
void text_fixed(struct text *text, int64_t units, int decimals) {
  char digits[32];
  size_t first = sizeof digits;
  uint64_t left = units < 0 ? 0 - (uint64_t)units : (uint64_t)units;
  for (int place = 0; left || place <= decimals; place++, left /= 10) {
    if (place && place == decimals) digits[--first] = '.';
    digits[--first] = (char)('0' + left % 10);
  }
  if (units < 0) digits[--first] = '-';
  text_append_plain(text, digits + first, sizeof digits - first);
}

// Writes a number that is a short decimal: up to six digits, up to four of them after the point. Such a decimal is the
// shortest that reads back as the number, since a float32 preserves six digits. Returns false for other numbers.
static bool put_short(struct text *text, double value, bool single) {
  double units = rint(value * 1e4), read = units / 1e4;
  if (!(fabs(units) < 1e10) || (single ? (double)(float)read : read) != value || (value == 0 && signbit(value)))
    return false;
  int64_t left = (int64_t)units;
  int decimals = 4;
  for (; decimals > 0 && left % 10 == 0; decimals--) left /= 10;
  if (left <= -1000000 || left >= 1000000) return false;
  text_fixed(text, left, decimals);
  return true;
}

void text_number(struct text *text, double value, bool single) {
  char memory[40];
  if (put_short(text, value, single)) return;
  for (int digits = single ? 6 : 15; digits <= 17; digits++) {
    snprintf(memory, sizeof memory, "%.*g", digits, value);
    double read = strtod(memory, NULL);
    if ((single ? (double)(float)read : read) == value) break;
  }
  char *plus = strchr(memory, '+');
  if (plus) {
    const char *exponent = plus + strspn(plus, "+0");
    memmove(plus, exponent, strlen(exponent) + 1);
  }
  text_put(text, memory);
}
