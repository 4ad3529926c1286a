// See block.cuh.
//
// A kernel that runs past the end of another process's memory would cost this process its context. So the size comes
// from the driver, never from the sender of the handle.
#include "kernels/cuda/base/block.cuh"

#include <cuda.h>
#include <string.h>

#include "kernels/clock.h"
#include "kernels/cuda/base/check.cuh"

static_assert(sizeof(cudaIpcMemHandle_t) == VX_HANDLE_SIZE, "the size of a handle");

// The program does not link the driver, so that it starts on machines without one.
static enum vx_status find_driver_function(const char *name, void **function, struct error *error) {
  enum cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
  CUDA_CALL(cudaGetDriverEntryPointByVersion(name, function, 3020, cudaEnableDefault, &found), error);
#elif CUDART_VERSION >= 12000
  CUDA_CALL(cudaGetDriverEntryPoint(name, function, cudaEnableDefault, &found), error);
#else
  CUDA_CALL(cudaGetDriverEntryPoint(name, function, cudaEnableDefault), error);
  found = cudaDriverEntryPointSuccess;
#endif
  return found == cudaDriverEntryPointSuccess && *function ? VX_OK : vx_refuse(error, "the driver has no %s", name);
}

static enum vx_status measure(const struct vx_device *device, void *memory, struct vx_block *block,
                              struct error *error) {
  typedef CUresult get_range(CUdeviceptr *, size_t *, CUdeviceptr);
  struct cudaPointerAttributes attributes = {};
  void *function = NULL;
  CUdeviceptr base = 0;
  size_t bytes = 0;
  CUDA_TRY(find_driver_function("cuMemGetAddressRange", &function, error));
  CUDA_CALL(cudaPointerGetAttributes(&attributes, memory), error);
  CUresult result = ((get_range *)function)(&base, &bytes, (CUdeviceptr)memory);
  if (result != CUDA_SUCCESS) return vx_refuse(error, "cuMemGetAddressRange: error %d", (int)result);
  if (attributes.type != cudaMemoryTypeDevice || attributes.device != device->index)
    return vx_refuse(error, "the memory is of GPU %d, not of GPU %d", attributes.device, device->index);
  *block = {(char *)memory, bytes - (size_t)((CUdeviceptr)memory - base)};  // block_close needs `memory`, not `base`
  return VX_OK;
}

enum vx_status cuda_open_block(struct vx_device *device, const void *handle, struct vx_block *block,
                               struct error *error) {
  cudaIpcMemHandle_t its_handle;
  void *memory = NULL;
  memcpy(&its_handle, handle, sizeof its_handle);
  CUDA_CALL(cudaSetDevice(device->index), error);
  CUDA_CALL(cudaIpcOpenMemHandle(&memory, its_handle, cudaIpcMemLazyEnablePeerAccess), error);
  enum vx_status status = measure(device, memory, block, error);
  if (status != VX_OK) cuda_close_block(device, memory);
  return status;
}

void cuda_close_block(struct vx_device *device, void *memory) {
  (void)cudaSetDevice(device->index);
  (void)cudaIpcCloseMemHandle(memory);
  (void)cudaGetLastError();
}

// Copies in a stream of the calling thread, so it waits for no job. Spins first, because a short copy ends before a
// thread could sleep and wake.
enum vx_status cuda_copy_block(struct vx_device *device, void *to, const void *from, size_t bytes,
                               struct error *error) {
  enum { SPIN_NS = 100000 };
  CUDA_CALL(cudaSetDevice(device->index), error);
  CUDA_CALL(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, cudaStreamPerThread), error);
  int64_t began = clock_ns();
  while (cudaStreamQuery(cudaStreamPerThread) == cudaErrorNotReady && clock_ns() - began < SPIN_NS) clock_pause();
  (void)cudaGetLastError();
  CUDA_CALL(cudaStreamSynchronize(cudaStreamPerThread), error);
  return VX_OK;
}
