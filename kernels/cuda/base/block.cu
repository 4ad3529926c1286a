// See block.cuh.
//
// A kernel that runs past the end of such memory would cost the whole process its context. So the size comes from the
// driver, never from the process that has sent the handle.
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
  *block = {(char *)memory, bytes - (size_t)((CUdeviceptr)memory - base)};  // block_close takes what the driver gave
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

// In a stream of the calling thread, so the copy waits for no job. A short copy ends before a thread could sleep and
// wake.
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

// ---- samples --------------------------------------------------------------------------------------------------------

// What the host and the kernel share, in pinned memory, whose addresses are the same on both.
struct cuda_samples {
  struct vx_piece piece[VX_MAX_PIECES];
  alignas(16) unsigned char out[VX_MAX_PIECES_BYTES];
  uint32_t sequence;       // of the host's last call
  volatile uint32_t done;  // the last one that the kernel has done
};

enum { SAMPLE_BLOCK = 1024 };

template <typename unit>
static __device__ void copy_piece(const struct vx_piece &piece, const void *memory, void *out) {
  const unit *from = (const unit *)((const char *)memory + piece.from);
  unit *to = (unit *)((char *)out + piece.to);
  for (uint32_t i = threadIdx.x % 32; i < piece.bytes / sizeof(unit); i += 32) to[i] = __ldcs(from + i);
}

// One block: a warp copies a piece.
static __global__ void __launch_bounds__(SAMPLE_BLOCK)
    sample_kernel(struct cuda_samples *samples, const void *memory, int32_t count, uint32_t sequence) {
  __shared__ struct vx_piece pieces[SAMPLE_BLOCK];
  for (int32_t first = 0; first < count; first += SAMPLE_BLOCK) {
    int32_t some = min(count - first, (int32_t)SAMPLE_BLOCK);
    __syncthreads();
    if ((int32_t)threadIdx.x < some) pieces[threadIdx.x] = samples->piece[first + threadIdx.x];
    __syncthreads();
#pragma unroll 4
    for (int32_t i = (int32_t)threadIdx.x / 32; i < some; i += SAMPLE_BLOCK / 32) {
      const struct vx_piece piece = pieces[i];
      if (((uintptr_t)memory + piece.from) % 4 == 0 && piece.to % 4 == 0 && piece.bytes % 4 == 0)
        copy_piece<uint32_t>(piece, memory, samples->out);
      else
        copy_piece<unsigned char>(piece, memory, samples->out);
    }
  }
  __threadfence_system();
  __syncthreads();
  if (threadIdx.x == 0) samples->done = sequence;
}

static enum vx_status await_samples(const struct cuda_samples *samples, struct error *error) {
  enum { SPIN_NS = 1000000 };
  int64_t began = clock_ns();
  while (samples->done != samples->sequence && clock_ns() - began < SPIN_NS) clock_pause();
  if (samples->done != samples->sequence) CUDA_CALL(cudaStreamSynchronize(cudaStreamPerThread), error);
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
  return VX_OK;
}

enum vx_status cuda_sample_block(struct vx_lane *lane, const void *memory, const struct vx_piece *piece, int32_t count,
                                 char *out, struct error *error) {
  if (count == 0) return VX_OK;
  CUDA_CALL(cudaSetDevice(lane->device->index), error);
  if (!lane->samples) {
    void *samples;
    CUDA_CALL(cudaHostAlloc(&samples, sizeof *lane->samples, cudaHostAllocMapped), error);
    memset(samples, 0, sizeof *lane->samples);
    lane->samples = (struct cuda_samples *)samples;
  }
  struct cuda_samples *samples = lane->samples;
  memcpy(samples->piece, piece, (size_t)count * sizeof *piece);
  samples->sequence++;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(1);
  config.blockDim = dim3(SAMPLE_BLOCK);
  config.stream = cudaStreamPerThread;
  CUDA_CALL(cudaLaunchKernelEx(&config, sample_kernel, samples, memory, count, samples->sequence), error);
  CUDA_TRY(await_samples(samples, error));
  memcpy(out, samples->out, piece[count - 1].to + piece[count - 1].bytes);
  return VX_OK;
}
