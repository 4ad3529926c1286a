// See pieces.cuh. One block copies to memory that the host sees too, then writes a word there, which the host polls. So
// a copy needs no copy engine, and no synchronization unless it takes longer than SPIN_NS. It runs in a stream of the
// calling thread, beside the lane's job.
#include "kernels/cuda/base/pieces.cuh"

#include <string.h>

#include "kernels/clock.h"
#include "kernels/cuda/base/check.cuh"

// In pinned memory, whose addresses are the same on host and device.
struct cuda_pieces {
  struct vx_piece piece[VX_MAX_PIECES];
  alignas(16) unsigned char bytes[VX_MAX_PIECES_BYTES];
  uint32_t sequence;       // of the host's last call
  volatile uint32_t done;  // the last sequence that the kernel has done
};

enum { PIECES_BLOCK = 1024 };

template <typename unit>
static __device__ void copy_units(const void *from, void *to, uint32_t bytes, uint32_t first, uint32_t step) {
  for (uint32_t i = first; i < bytes / sizeof(unit); i += step) ((unit *)to)[i] = __ldcs((const unit *)from + i);
}

// One thread's units of a copy: `first`, `first + step`, and so on. A unit is as wide as both addresses and the size
// allow.
static __device__ void copy_bytes(const void *from, void *to, uint32_t bytes, uint32_t first, uint32_t step) {
  uintptr_t odd = (uintptr_t)from | (uintptr_t)to | bytes;
  if (odd % sizeof(uint4) == 0)
    copy_units<uint4>(from, to, bytes, first, step);
  else if (odd % sizeof(uint32_t) == 0)
    copy_units<uint32_t>(from, to, bytes, first, step);
  else
    copy_units<unsigned char>(from, to, bytes, first, step);
}

// A warp copies a piece.
static __global__ void __launch_bounds__(PIECES_BLOCK)
    sample_kernel(struct cuda_pieces *pieces, const void *memory, int32_t count, uint32_t sequence) {
  __shared__ struct vx_piece some[PIECES_BLOCK];
  for (int32_t first = 0; first < count; first += PIECES_BLOCK) {
    int32_t left = min(count - first, (int32_t)PIECES_BLOCK);
    __syncthreads();
    if ((int32_t)threadIdx.x < left) some[threadIdx.x] = pieces->piece[first + threadIdx.x];
    __syncthreads();
#pragma unroll 4
    for (int32_t i = (int32_t)threadIdx.x / 32; i < left; i += PIECES_BLOCK / 32)
      copy_bytes((const char *)memory + some[i].from, pieces->bytes + some[i].to, some[i].bytes, threadIdx.x % 32, 32);
  }
  __threadfence_system();
  __syncthreads();
  if (threadIdx.x == 0) pieces->done = sequence;
}

static enum vx_status reserve(struct vx_lane *lane, struct error *error) {
  void *pieces;
  if (lane->pieces) return VX_OK;
  CUDA_CALL(cudaHostAlloc(&pieces, sizeof *lane->pieces, cudaHostAllocMapped), error);
  memset(pieces, 0, sizeof *lane->pieces);
  lane->pieces = (struct cuda_pieces *)pieces;
  return VX_OK;
}

enum vx_status cuda_sample_block(struct vx_lane *lane, const void *memory, const struct vx_piece *piece, int32_t count,
                                 struct error *error) {
  CUDA_CALL(cudaSetDevice(lane->device->index), error);
  CUDA_TRY(reserve(lane, error));
  struct cuda_pieces *pieces = lane->pieces;
  pieces->sequence++;
  memcpy(pieces->piece, piece, (size_t)count * sizeof *piece);
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(1);
  config.blockDim = dim3(PIECES_BLOCK);
  config.stream = cudaStreamPerThread;
  return cuda_check(cudaLaunchKernelEx(&config, sample_kernel, pieces, memory, count, pieces->sequence),
                    "sample_kernel", error);
}

enum vx_status cuda_await_block(struct vx_lane *lane, const char **out, struct error *error) {
  enum { SPIN_NS = 1000000 };
  const struct cuda_pieces *pieces = lane->pieces;
  int64_t began = clock_ns();
  while (pieces->done != pieces->sequence && clock_ns() - began < SPIN_NS) clock_pause();
  if (pieces->done != pieces->sequence) CUDA_CALL(cudaStreamSynchronize(cudaStreamPerThread), error);
  if (pieces->done != pieces->sequence)
    return vx_fail(error, VX_DEVICE_LOST, "the device finished a copy without an answer");
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
  *out = (const char *)pieces->bytes;
  return VX_OK;
}
