// Where the tensors of a voxelization lie in the image: the layout of vx_layout_of, computed on the device, which knows
// the number of rows before the host does.
#ifndef VOXELD_CUDA_TENSOR_OFFSETS_CUH
#define VOXELD_CUDA_TENSOR_OFFSETS_CUH

#include "kernels/cuda/base/run.cuh"

// In a block's shared memory.
struct tensor_offsets {
  uint64_t own_bytes[VX_TENSOR_COUNT], row_bytes[VX_TENSOR_COUNT];
  unsigned char *at[VX_TENSOR_COUNT];  // NULL: not requested
};

// Called by a whole block, even before the previous kernel has ended.
static __device__ inline void cuda_read_plan(const struct cuda_image_plan &plan, struct tensor_offsets *offsets) {
  for (int tensor = (int)threadIdx.x; tensor < VX_TENSOR_COUNT; tensor += (int)blockDim.x) {
    offsets->own_bytes[tensor] = plan.own_bytes[tensor];
    offsets->row_bytes[tensor] = plan.row_bytes[tensor];
    offsets->at[tensor] = NULL;
  }
  __syncthreads();
}

// Called by a block after cuda_read_plan. The block sees offsets->at after its next barrier.
static __device__ inline void cuda_find_offsets(const struct cuda_image_plan &plan, uint64_t num_rows,
                                                struct tensor_offsets *offsets) {
  unsigned char *end = plan.memory;
  for (vx_tensor_set rest = threadIdx.x == 0 ? plan.tensors : 0; rest != 0; rest &= rest - 1) {
    int tensor = __ffsll((long long)rest) - 1;
    offsets->at[tensor] = end + (0 - (uint64_t)(end - plan.memory)) % VX_TENSOR_ALIGNMENT;
    end = offsets->at[tensor] + offsets->own_bytes[tensor] + offsets->row_bytes[tensor] * num_rows;
  }
}

#endif
