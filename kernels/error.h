// The result of a call: a status and, if it is not VX_OK, an error with the reason.
//
// Any thread. An error belongs to the caller.
#ifndef VOXELD_ERROR_H
#define VOXELD_ERROR_H

#include <stdarg.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

#define VX_WARN_UNUSED __attribute__((warn_unused_result))

enum vx_status {
  VX_OK,
  VX_REFUSED,        // the request cannot be satisfied
  VX_OUT_OF_MEMORY,  // host or device; the same job may succeed later
  VX_DEVICE_LOST,    // the device cannot run anything more
  VX_STOPPED,        // the caller's `stopped` returned true
  VX_FAILED,         // a model's network failed to run
  VX_STATUS_COUNT,
};

// One struct for all layers, from the kernels to HTTP.
struct error {
  int kind;            // 0: none; else a vx_status, or an error_kind (api/base/problem.h), which continues vx_status
  char parameter[64];  // the parameter at fault, or ""
  char text[640];      // the reason; a longer reason loses its middle
};

// `parameter` may be NULL. A text that is too long keeps its beginning and its end, since reasons of foreign libraries
// often end with what is wrong. The arguments may point into the error.
__attribute__((format(printf, 4, 0))) void error_write(struct error *error, int kind, const char *parameter,
                                                       const char *format, va_list arguments);

// Each of the following functions writes an error and returns a failure, so that a refusal is one statement.

// Returns VX_REFUSED.
__attribute__((format(printf, 2, 3))) enum vx_status vx_refuse(struct error *error, const char *format, ...);
// Returns `status`.
__attribute__((format(printf, 3, 4))) enum vx_status vx_fail(struct error *error, enum vx_status status,
                                                             const char *format, ...);
// Returns false.
__attribute__((format(printf, 2, 3))) bool error_set(struct error *error, const char *format, ...);
// Writes before the error's text. Returns false.
__attribute__((format(printf, 2, 3))) bool error_prefix(struct error *error, const char *format, ...);
// Writes after the error's text. Returns false.
__attribute__((format(printf, 2, 3))) bool error_suffix(struct error *error, const char *format, ...);
// Sets error->parameter. Returns false.
bool error_blame(struct error *error, const char *parameter);

#ifdef __cplusplus
}
#endif
#endif
