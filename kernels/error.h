// The result of a call: a status and, if that is not VX_OK, an error that says why. Any thread; an error belongs to its
// caller.
#ifndef VOXELD_ERROR_H
#define VOXELD_ERROR_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

#define VX_WARN_UNUSED __attribute__((warn_unused_result))

// Why a call of the computation failed.
enum vx_status {
  VX_OK,
  VX_REFUSED,        // the request cannot be satisfied; the error's text says why
  VX_OUT_OF_MEMORY,  // host or device; the same job may succeed later
  VX_DEVICE_LOST,    // nothing more may be run on this device
  VX_STOPPED,        // the caller's `stopped` returned true
  VX_FAILED,         // a model's network does not run
  VX_STATUS_COUNT,
};

// Why something failed, from the kernels to HTTP.
struct error {
  int kind;  // 0: none. An enum vx_status, or an enum error_kind (api/base/problem.h), which begins with those
  char parameter[64];  // the parameter at fault, or ""
  char text[640];      // the reason; a longer one is cut
};

// Each writes an error and returns a failure, so that a refusal is one statement.
//
// VX_REFUSED.
__attribute__((format(printf, 2, 3))) enum vx_status vx_refuse(struct error *error, const char *format, ...);
// Any other status.
__attribute__((format(printf, 3, 4))) enum vx_status vx_fail(struct error *error, enum vx_status status,
                                                             const char *format, ...);
// False, for calls that only succeed or fail.
__attribute__((format(printf, 2, 3))) bool error_set(struct error *error, const char *format, ...);
// Puts what failed in front of the text. False.
__attribute__((format(printf, 2, 3))) bool error_prefix(struct error *error, const char *format, ...);
// Says which parameter is at fault. False.
bool error_blame(struct error *error, const char *parameter);

#ifdef __cplusplus
}
#endif
#endif
