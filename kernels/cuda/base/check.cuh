// CUDA errors as a vx_status and a text. Any thread.
#ifndef VOXELD_CUDA_CHECK_CUH
#define VOXELD_CUDA_CHECK_CUH

#include <cuda_runtime.h>

#include "kernels/kernels.h"

// VX_OK for cudaSuccess. Otherwise the text names `what`, and the status says what would help: another request
// (VX_REFUSED), free memory (VX_OUT_OF_MEMORY), or nothing (VX_DEVICE_LOST: the context does not recover).
VX_WARN_UNUSED enum vx_status cuda_check(cudaError_t result, const char *what, struct error *error);

// The result of the last launch. A fault inside the kernel appears at a later call.
VX_WARN_UNUSED enum vx_status cuda_launched(const char *kernel, struct error *error);

// Returns from the calling function unless `expression`, a vx_status, is VX_OK.
#define CUDA_TRY(expression)                                                                                           \
  do {                                                                                                                 \
    enum vx_status cuda_try_status = (expression);                                                                     \
    if (cuda_try_status != VX_OK) return cuda_try_status;                                                              \
  } while (0)

#define CUDA_CALL(call, error) CUDA_TRY(cuda_check((call), #call, (error)))

#endif
