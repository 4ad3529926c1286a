// See check.cuh.
#include "kernels/cuda/base/check.cuh"

#include <stdio.h>

// Errors after which the device still works. Any other, except lack of memory, counts as its loss, since going on after
// an unforeseen error could write a wrong byte.
static bool is_callers_fault(cudaError_t result) {
  switch (result) {
    case cudaErrorInvalidValue:
    case cudaErrorInvalidConfiguration:
    case cudaErrorInvalidDevice:
    case cudaErrorInvalidResourceHandle:
    case cudaErrorHostMemoryAlreadyRegistered:
    case cudaErrorHostMemoryNotRegistered:
    case cudaErrorLaunchOutOfResources:
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorUnsupportedPtxVersion:
    case cudaErrorStreamCaptureUnsupported:
    case cudaErrorStreamCaptureInvalidated:
    case cudaErrorNotSupported: return true;
    default: return false;
  }
}

static enum vx_status status_of(cudaError_t result) {
  if (result == cudaErrorMemoryAllocation) return VX_OUT_OF_MEMORY;
  return is_callers_fault(result) ? VX_REFUSED : VX_DEVICE_LOST;
}

#ifdef VOXELD_FAULTS
extern "C" enum vx_status
inject_next(void);  // tests/support/standin/inject.h: the result that a test has chosen for this call
extern "C" bool inject_is_real(void);

static __global__ void fault_kernel() { asm("trap;"); }

static cudaError_t instead_of(cudaError_t result) {
  static const cudaError_t stands_for[] = {cudaSuccess, cudaErrorInvalidValue, cudaErrorMemoryAllocation,
                                           cudaErrorIllegalAddress};  // indexed by vx_status
  enum vx_status wanted = inject_next();
  if (wanted == VX_DEVICE_LOST && inject_is_real()) {
    fault_kernel<<<1, 1>>>();
    return cudaDeviceSynchronize();
  }
  cudaError_t injected = stands_for[wanted];
  return result == cudaSuccess ? injected : result;
}
#else
static cudaError_t instead_of(cudaError_t result) { return result; }
#endif

enum vx_status cuda_check(cudaError_t result, const char *what, struct error *error) {
  result = instead_of(result);
  if (result == cudaSuccess) return VX_OK;
  (void)cudaGetLastError();  // resets the error, so that the next launch does not report it again
  return vx_fail(error, status_of(result), "%.120s: %s (%s)", what, cudaGetErrorString(result),
                 cudaGetErrorName(result));
}

enum vx_status cuda_launched(const char *kernel, struct error *error) {
  return cuda_check(cudaGetLastError(), kernel, error);
}
