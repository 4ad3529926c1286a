// The bounded text builder; see text.h.
#include "api/base/text.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void put_raw(struct text *text, const char *bytes, size_t length) {
  if (text->length < text->capacity) {
    size_t room = text->capacity - text->length - 1;
    size_t fits = length < room ? length : room;
    memcpy(text->data + text->length, bytes, fits);
    text->data[text->length + fits] = '\0';
  }
  text->length += length;
}

static bool is_plain(unsigned char byte) { return byte >= 0x20 && byte != 0x7f && byte != '"' && byte != '\\'; }

// The escape of one byte inside a JSON string, or NULL if the byte needs none.
static const char *json_escape(unsigned char byte, char escape[8]) {
  if (is_plain(byte)) return NULL;
  if (byte == '"') return "\\\"";
  if (byte == '\\') return "\\\\";
  snprintf(escape, 8, "\\u%04x", byte);
  return escape;
}

static void put_escaped(struct text *text, const char *bytes, size_t length) {
  size_t start = 0;
  for (size_t i = 0; i < length; i++) {
    if (is_plain((unsigned char)bytes[i])) continue;
    char room[8];
    const char *escape = json_escape((unsigned char)bytes[i], room);
    put_raw(text, bytes + start, i - start);
    put_raw(text, escape, strlen(escape));
    start = i + 1;
  }
  put_raw(text, bytes + start, length - start);
}

void text_append(struct text *text, const char *bytes, size_t length) {
  if (text->quoted)
    put_escaped(text, bytes, length);
  else
    put_raw(text, bytes, length);
}

void text_put(struct text *text, const char *string) { text_append(text, string, strlen(string)); }

// Prints straight into the text's memory.
static void print_long(struct text *text, size_t length, const char *format, va_list arguments) {
  if (text->length < text->capacity)
    (void)vsnprintf(text->data + text->length, text->capacity - text->length, format, arguments);
  text->length += length;
}

void text_printf(struct text *text, const char *format, ...) {
  char piece[512];
  va_list arguments, again;
  va_start(arguments, format);
  va_copy(again, arguments);
  int length = vsnprintf(piece, sizeof piece, format, arguments);
  if (length >= 0 && (size_t)length < sizeof piece)
    text_append(text, piece, (size_t)length);
  else if (length >= 0 && !text->quoted)
    print_long(text, (size_t)length, format, again);
  else
    text->cut = true;
  va_end(again);
  va_end(arguments);
}

void text_member(struct text *text, const char *comma, const char *name) {
  text_put(text, comma);
  text_append(text, "\"", 1);
  text_put(text, name);
  text_append(text, "\":", 2);
}

// Every answer has some hundred numbers. A format of printf for each took a fourth of a small request's whole time.
void text_fixed(struct text *text, int64_t units, int decimals) {
  char digits[32];
  size_t first = sizeof digits;
  uint64_t left = units < 0 ? 0 - (uint64_t)units : (uint64_t)units;
  for (int place = 0; left || place <= decimals; place++, left /= 10) {
    if (place && place == decimals) digits[--first] = '.';
    digits[--first] = (char)('0' + left % 10);
  }
  if (units < 0) digits[--first] = '-';
  text_append(text, digits + first, sizeof digits - first);
}

void text_integer(struct text *text, int64_t value) { text_fixed(text, value, 0); }

// Length of the well-formed UTF-8 sequence at bytes (RFC 3629), 0 if there is none.
static size_t utf8_sequence(const unsigned char *bytes, size_t length) {
  static const struct {
    unsigned char mask, lead;
    size_t length;
    uint32_t least;
  } forms[] = {{0x80, 0x00, 1, 0}, {0xe0, 0xc0, 2, 0x80}, {0xf0, 0xe0, 3, 0x800}, {0xf8, 0xf0, 4, 0x10000}};
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

void text_json_string(struct text *text, const char *bytes, size_t length) {
  const unsigned char *input = (const unsigned char *)bytes;
  text_put(text, "\"");
  for (size_t i = 0; i < length;) {
    size_t plain = 0;
    while (i + plain < length && input[i + plain] < 0x80 && is_plain(input[i + plain])) plain++;
    text_append(text, bytes + i, plain);
    i += plain;
    if (i == length) break;
    size_t sequence = utf8_sequence(input + i, length - i);
    char room[8];
    const char *escape = json_escape(input[i], room);
    if (!sequence)
      text_put(text, "\xef\xbf\xbd");
    else if (escape)
      text_put(text, escape);
    else
      text_append(text, bytes + i, sequence);
    i += sequence ? sequence : 1;
  }
  text_put(text, "\"");
}

// Writes a float that is a short decimal: up to six digits in all, up to four of them behind the point. Every such
// decimal is the shortest that reads back as its float, since six digits survive in a float32.
static bool put_short(struct text *text, float value) {
  double units = rint((double)value * 1e4);
  if (!(fabs(units) < 1e10) || (float)(units / 1e4) != value || (value == 0 && signbit(value))) return false;
  int64_t left = (int64_t)units;
  int decimals = 4;
  for (; decimals > 0 && left % 10 == 0; decimals--) left /= 10;
  if (left <= -1000000 || left >= 1000000) return false;
  text_fixed(text, left, decimals);
  return true;
}

void text_float(struct text *text, float value) {
  if (put_short(text, value)) return;
  char digits[32];
  for (int precision = 6; precision <= 9; precision++) {
    snprintf(digits, sizeof digits, "%.*g", precision, (double)value);
    if ((float)strtod(digits, NULL) == value) break;
  }
  char *plus = strchr(digits, '+');
  if (plus) {
    const char *exponent = plus + strspn(plus, "+0");
    memmove(plus, exponent, strlen(exponent) + 1);
  }
  text_put(text, digits);
}

void text_microseconds(struct text *text, int64_t nanoseconds) { text_fixed(text, nanoseconds / 100, 1); }
