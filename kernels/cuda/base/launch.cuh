// Launches of kernels.
#ifndef VOXELD_CUDA_LAUNCH_CUH
#define VOXELD_CUDA_LAUNCH_CUH

#include "kernels/cuda/base/run.cuh"

static inline unsigned cuda_blocks(uint64_t items, unsigned per_block) {
  return (unsigned)((items + per_block - 1) / per_block);
}

// Blocks of a kernel that loops over its items: at most as many as the device runs at once.
static inline unsigned cuda_looping_blocks(const struct cuda_run *run, uint64_t items, unsigned per_block,
                                           unsigned per_multiprocessor) {
  uint64_t blocks = (items + per_block - 1) / per_block, most = run->lane->device->multiprocessors * per_multiprocessor;
  return (unsigned)(blocks < 1 ? 1 : blocks < most ? blocks : most);
}

// The limit on the size of a kernel's arguments before CUDA 12.1.
enum { CUDA_ARGUMENT_BYTES = 4096 };

// Launches a kernel. From an argument of type cuda_run, the kernel gets a base: the voxel_view or the cuda_view. The
// kernel may start while the previous kernel runs, so it must call cuda_wait before it reads what that kernel writes.
template <typename... types, typename... values>
static inline enum vx_status cuda_launch(const char *name, void (*kernel)(types...), uint64_t blocks, unsigned threads,
                                         size_t shared_bytes, const struct cuda_run *run, struct error *error,
                                         const values &...arguments) {
  static_assert((sizeof(types) + ...) <= CUDA_ARGUMENT_BYTES, "an old driver refuses arguments of this size");
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3((unsigned)blocks);
  config.blockDim = dim3(threads);
  config.dynamicSmemBytes = shared_bytes;
  config.stream = run->stream;
  config.attrs = &attribute;
  config.numAttrs = run->lane->device->overlap ? 1 : 0;
  return cuda_check(cudaLaunchKernelEx(&config, kernel, arguments...), name, error);
}

#endif
