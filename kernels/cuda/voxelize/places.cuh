// Where the tensors of a voxelization lie in the image: as vx_layout_of has it, which the device computes anew, as it
// knows the number of rows before the host does.
#ifndef VOXELD_CUDA_PLACES_CUH
#define VOXELD_CUDA_PLACES_CUH

#include "kernels/cuda/base/run.cuh"

struct image_plan {
  unsigned char *memory;
  vx_tensor_set tensors;
  uint64_t row_bytes[VX_TENSOR_COUNT];  // that each output row adds to a tensor
  uint64_t own_bytes[VX_TENSOR_COUNT];  // that it has without any
};

// Fills the plan of the job's image.
VX_WARN_UNUSED static inline enum vx_status cuda_plan_image(const struct cuda_run *run, struct image_plan *plan,
                                                            struct vx_error *error) {
  struct vx_layout none, one;
  struct vx_sizes no_row = cuda_sizes_of(run, 0), one_row = cuda_sizes_of(run, 1);
  CUDA_TRY(vx_layout_of(run->tensors, &no_row, &none, error));
  CUDA_TRY(vx_layout_of(run->tensors, &one_row, &one, error));
  plan->memory = run->lane->image.memory;
  plan->tensors = run->tensors;
  for (int tensor = 0; tensor < VX_TENSOR_COUNT; tensor++) {
    plan->own_bytes[tensor] = none.shape[tensor].bytes;
    plan->row_bytes[tensor] = one.shape[tensor].bytes - none.shape[tensor].bytes;
  }
  return VX_OK;
}

// As one thread: finds the places of the first `count` tensors; of those that are not wanted it is NULL.
template <int count>
static __device__ inline void cuda_find_places(const struct image_plan &plan, uint64_t num_rows, bool zero_gaps,
                                               unsigned char *(&places)[count]) {
  unsigned char *end = plan.memory;
#pragma unroll
  for (int tensor = 0; tensor < count; tensor++) {
    places[tensor] = NULL;
    if ((plan.tensors >> tensor & 1) != 0) {
      uint64_t used = (uint64_t)(end - plan.memory);
      unsigned char *begin = end + (0 - used) % VX_TENSOR_ALIGNMENT;
      for (; zero_gaps && end < begin; end++) {
        *end = 0;
      }
      places[tensor] = begin;
      end = begin + plan.own_bytes[tensor] + plan.row_bytes[tensor] * num_rows;
    }
  }
}

#endif
