// See error.h.
#include "kernels/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void write(struct error *error, int kind, const char *format, va_list arguments) {
  error->kind = kind;
  error->parameter[0] = '\0';
  vsnprintf(error->text, sizeof error->text, format, arguments);
}

enum vx_status vx_refuse(struct error *error, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  write(error, VX_REFUSED, format, arguments);
  va_end(arguments);
  return VX_REFUSED;
}

enum vx_status vx_fail(struct error *error, enum vx_status status, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  write(error, status, format, arguments);
  va_end(arguments);
  return status;
}

bool error_set(struct error *error, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  write(error, VX_REFUSED, format, arguments);
  va_end(arguments);
  return false;
}

bool error_prefix(struct error *error, const char *format, ...) {
  char reason[sizeof error->text];
  memcpy(reason, error->text, sizeof reason);
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(error->text, sizeof error->text, format, arguments);
  va_end(arguments);
  if (length >= 0 && (size_t)length < sizeof error->text)
    snprintf(error->text + length, sizeof error->text - (size_t)length, "%s", reason);
  return false;
}

bool error_blame(struct error *error, const char *parameter) {
  snprintf(error->parameter, sizeof error->parameter, "%s", parameter);
  return false;
}
