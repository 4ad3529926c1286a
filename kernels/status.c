// See status.h.
#include "kernels/status.h"

#include <stdarg.h>
#include <stdio.h>

enum vx_status vx_refuse(struct vx_error *error, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(error->text, sizeof error->text, format, arguments);
  va_end(arguments);
  return VX_REFUSED;
}
