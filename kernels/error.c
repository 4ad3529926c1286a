// See error.h.
#include "kernels/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { LONGEST_TEXT = 4096 };

static void shorten(struct error *error, const char *whole, size_t length) {
  static const char gap[] = " ... ";
  const size_t beginning = 200, end = sizeof error->text - beginning - sizeof gap;
  snprintf(error->text, sizeof error->text, "%.*s%s%s", (int)beginning, whole, gap, whole + length - end);
}

void error_write(struct error *error, int kind, const char *parameter, const char *format, va_list arguments) {
  char whole[LONGEST_TEXT];
  (void)vsnprintf(whole, sizeof whole, format, arguments);
  size_t length = strlen(whole);
  error->kind = kind;
  snprintf(error->parameter, sizeof error->parameter, "%s", parameter ? parameter : "");
  if (length < sizeof error->text)
    memcpy(error->text, whole, length + 1);
  else
    shorten(error, whole, length);
}

enum vx_status vx_refuse(struct error *error, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  error_write(error, VX_REFUSED, NULL, format, arguments);
  va_end(arguments);
  return VX_REFUSED;
}

enum vx_status vx_fail(struct error *error, enum vx_status status, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  error_write(error, status, NULL, format, arguments);
  va_end(arguments);
  return status;
}

bool error_set(struct error *error, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  error_write(error, VX_REFUSED, NULL, format, arguments);
  va_end(arguments);
  return false;
}

// Replaces the error's text; keeps its kind and its parameter.
__attribute__((format(printf, 2, 3))) static void rewrite(struct error *error, const char *format, ...) {
  const struct error before = *error;
  va_list arguments;
  va_start(arguments, format);
  error_write(error, before.kind, before.parameter, format, arguments);
  va_end(arguments);
}

bool error_prefix(struct error *error, const char *format, ...) {
  struct error prefix;
  va_list arguments;
  va_start(arguments, format);
  error_write(&prefix, error->kind, NULL, format, arguments);
  va_end(arguments);
  rewrite(error, "%s%s", prefix.text, error->text);
  return false;
}

bool error_suffix(struct error *error, const char *format, ...) {
  struct error suffix;
  va_list arguments;
  va_start(arguments, format);
  error_write(&suffix, error->kind, NULL, format, arguments);
  va_end(arguments);
  rewrite(error, "%s%s", error->text, suffix.text);
  return false;
}

bool error_blame(struct error *error, const char *parameter) {
  snprintf(error->parameter, sizeof error->parameter, "%s", parameter);
  return false;
}
