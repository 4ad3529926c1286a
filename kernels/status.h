// The result of a call of the computation: a status and, if that is not VX_OK, the reason in words.
#ifndef VOXELD_STATUS_H
#define VOXELD_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

#define VX_WARN_UNUSED __attribute__((warn_unused_result))

// Why a call failed; the classes a caller can act on.
enum vx_status {
  VX_OK,
  VX_REFUSED,        // the request cannot be satisfied; the error's text says why
  VX_OUT_OF_MEMORY,  // host or device; the same job may succeed later
  VX_DEVICE_LOST,    // nothing more may be run on this device
  VX_STOPPED,        // the caller's `stopped` returned true
  VX_FAILED,         // a model's network does not run
  VX_STATUS_COUNT,
};

struct vx_error {
  char text[256];
};

// Fills the error and returns VX_REFUSED, so that a refusal is one statement.
__attribute__((format(printf, 2, 3))) enum vx_status vx_refuse(struct vx_error *error, const char *format, ...);

#ifdef __cplusplus
}
#endif
#endif
