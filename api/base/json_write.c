// See json_write.h.
#include "api/base/json_write.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

// ---- places ---------------------------------------------------------------------------------------------------------

static void put_line(struct text *out, int depth) {
  text_put(out, "\n");
  for (int level = 0; level < depth; level++) text_put(out, "  ");
}

static bool has_lines(const struct text *out) { return out->json.depth > 0 && out->json.depth <= out->json.lines; }

// Writes what separates the next value or name from what stands before it: a comma, a line break.
static void go_on(struct text *out) {
  if (out->json.behind == JSON_WORDS) return;
  if (out->json.behind == JSON_VALUE && out->json.depth) text_put_plain(out, ',');
  if (out->json.behind != JSON_NAME && has_lines(out)) put_line(out, out->json.depth);
  out->json.behind = JSON_VALUE;
}

static void put_quote(struct text *out) {
  if (out->json.quotes > 1) {
    text_append(out, "\"", 1);
  } else {
    if (out->json.quotes) text_put_plain(out, '\\');
    text_put_plain(out, '"');
  }
}

static void begin(struct text *out, char end) {
  if (out->json.depth >= JSON_DEPTH) out->cut = true;
  out->json.ends[out->json.depth++ % JSON_DEPTH] = end;
  out->json.behind = JSON_NOTHING;
}

static void put_colon(struct text *out) {
  text_put_plain(out, ':');
  if (has_lines(out)) text_put_plain(out, ' ');
  out->json.behind = JSON_NAME;
}

// Neither names nor bare words, such as true or 0, need escaping.
static void put_word(struct text *out, const char *word, size_t length, bool is_name) {
  go_on(out);
  if (is_name) put_quote(out);
  text_append_plain(out, word, length);
  if (is_name) put_quote(out);
  if (is_name) put_colon(out);
}

void json_member(struct text *out, const char *name) { put_word(out, name, strlen(name), true); }

void json_begin_string(struct text *out) {
  go_on(out);
  put_quote(out);
  begin(out, '"');
  out->json.quotes++;
}

static void begin_list(struct text *out, char mark, char end) {
  go_on(out);
  text_put_plain(out, mark);
  begin(out, end);
}

void json_end(struct text *out) {
  char end = out->json.ends[--out->json.depth % JSON_DEPTH];
  if (end == '"') {
    out->json.quotes--;
    put_quote(out);
  } else {
    if (out->json.behind == JSON_VALUE && out->json.depth < out->json.lines) put_line(out, out->json.depth);
    text_put_plain(out, end);
  }
  out->json.behind = JSON_VALUE;
}

// ---- values ---------------------------------------------------------------------------------------------------------

void json_put_string(struct text *out, const char *string) {
  bool quoted = string && out->json.behind != JSON_WORDS;
  go_on(out);
  if (quoted) put_quote(out);
  out->json.quotes += quoted;
  text_put(out, string ? string : "null");
  out->json.quotes -= quoted;
  if (quoted) put_quote(out);
}

void json_put_integers(struct text *out, const int64_t *values, int count) {
  begin_list(out, '[', ']');
  for (int i = 0; i < count; i++) json_put_integer(out, values[i]);
  json_end(out);
}

void json_put_fixed(struct text *out, int64_t units, int decimals) {
  go_on(out);
  text_fixed(out, units, decimals);
}

void json_put_double(struct text *out, double value) {
  go_on(out);
  text_double(out, value);
}

void json_put_float(struct text *out, float value) {
  bool negative_zero = value == 0 && signbit(value);
  go_on(out);
  if (!isfinite(value) || negative_zero)
    text_put(out, negative_zero ? "-0.0" : "null");
  else
    text_float(out, value);
}

// Appends JSON inside a string. JSON without newlines has no control characters and is UTF-8, so only quotation marks
// and backslashes need an escape. Faster than text_append, since it has no branches.
static void append_json(struct text *out, const char *json, size_t length) {
  size_t escapes = 0, room = out->length < out->capacity ? out->capacity - out->length : 0;
  for (size_t i = 0; i < length; i++) escapes += json[i] == '"' || json[i] == '\\';
  if (room > 0 && room <= length + escapes) {  // only a part fits
    text_append(out, json, length);
    return;
  }
  char *to = room ? out->data + out->length : NULL;
  for (size_t i = 0; to && i < length; i++) {
    *to = '\\';
    to += json[i] == '"' || json[i] == '\\';
    *to++ = json[i];
  }
  if (to) *to = '\0';
  out->length += length + escapes;
}

void json_put_part(struct text *out, const struct text *part) {
  go_on(out);
  if (out->json.quotes == 1)
    append_json(out, part->data, part->length);
  else
    text_append(out, part->data, part->length);
  out->cut = out->cut || part->cut;
  for (int level = 0; level < part->json.depth; level++) begin(out, part->json.ends[level]);
  out->json.behind = part->json.behind;
}

// ---- formats --------------------------------------------------------------------------------------------------------

// Each function that writes returns the rest of the format.

static const char *put_argument(struct text *out, const char *conversion, va_list *arguments) {
  const char *at = conversion;
  switch (*at) {
    case 's': json_put_string(out, va_arg(*arguments, const char *)); break;
    case 'd': json_put_integer(out, va_arg(*arguments, int)); break;
    case 'g': json_put_double(out, va_arg(*arguments, double)); break;
    case 'l':
      if (*++at == 'l')
        json_put_integer(out, va_arg(*arguments, long long)), at++;
      else
        json_put_integer(out, va_arg(*arguments, long));
      break;
    case 'z': json_put_integer(out, (int64_t)va_arg(*arguments, size_t)), at++; break;
    case 'i':
      go_on(out);
      text_put(out, va_arg(*arguments, int) ? "true" : "false");
      break;
    case '.':
      go_on(out);
      text_printf(out, "%.*f", at[1] - '0', va_arg(*arguments, double)), at += 2;
      break;
    default: out->cut = true; break;
  }
  return at + 1;
}

// Writes a name or a string, which ends before the character `end`.
static const char *put_words(struct text *out, const char *words, char end, va_list *arguments) {
  go_on(out);
  put_quote(out);
  out->json.quotes += end == '\'';  // names need no escaping
  out->json.behind = JSON_WORDS;
  while (*words && *words != end) {
    const char *at = words;
    while (*at && *at != '%' && *at != end) at++;
    text_append(out, words, (size_t)(at - words));
    words = *at == '%' ? put_argument(out, at + 1, arguments) : at;
  }
  out->json.quotes -= end == '\'';
  put_quote(out);
  out->json.behind = JSON_VALUE;
  return words + (*words == '\'');
}

static const char *put_mark(struct text *out, const char *mark) {
  if (*mark == '{' || *mark == '[') begin_list(out, *mark, *mark == '{' ? '}' : ']');
  if (*mark == '}' || *mark == ']') json_end(out);
  if (*mark == '\n') text_put(out, "\n");
  if (*mark == ':') put_colon(out);
  return mark + 1;
}

static bool is_in_word(char c) { return (c >= 'a' && c <= 'z') || c == '_' || (c >= '0' && c <= '9'); }

// Whether a name begins here.
static bool is_name(const char *token) {
  while (is_in_word(*token) || *token == '%') token++;
  return *token == ':';
}

// Skips characters that are no token, such as spaces.
static const char *put_token(struct text *out, const char *token, va_list *arguments) {
  const char *behind = token;
  while (is_in_word(*behind)) behind++;
  if (*token == '\'') return put_words(out, token + 1, '\'', arguments);
  if (*behind == '%')
    return is_name(behind) ? put_words(out, token, ':', arguments) : put_argument(out, token + 1, arguments);
  if (behind == token) return put_mark(out, token);
  put_word(out, token, (size_t)(behind - token), *behind == ':');
  return behind + (*behind == ':');
}

void json_printf(struct text *out, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  while (*format) format = put_token(out, format, &arguments);
  va_end(arguments);
}
