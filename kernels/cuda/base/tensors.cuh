// Neighbouring tensors of an image whose layout the host knows, for the kernel that writes them.
#ifndef VOXELD_CUDA_TENSORS_CUH
#define VOXELD_CUDA_TENSORS_CUH

#include "kernels/cuda/base/run.cuh"

template <int first, int last> struct cuda_tensors {
  enum { COUNT = last - first + 1 };
  unsigned char *at[COUNT];                          // NULL: not requested
  unsigned char *gap_begin[COUNT], *gap_end[COUNT];  // between the tensor and the one before it

  template <typename type> __device__ type *of(enum vx_tensor tensor) const { return (type *)at[tensor - first]; }

  // Called by at least VX_TENSOR_ALIGNMENT threads. Zeroes the gaps, which are shorter than the alignment.
  __device__ void zero_gaps(uint64_t thread) const {
#pragma unroll
    for (int i = 0; i < COUNT; i++)
      if (gap_begin[i] + thread < gap_end[i]) gap_begin[i][thread] = 0;
  }
};

// Call this once run->layout is known and lane->image has its memory.
template <int first, int last>
static inline struct cuda_tensors<first, last> cuda_tensors_of(const struct cuda_run *run) {
  const struct vx_layout *layout = &run->layout;
  struct cuda_tensors<first, last> tensors = {};
  unsigned char *end = run->lane->image.memory;
  for (int tensor = 0; tensor <= last; tensor++) {
    if ((layout->tensors & VX_TENSOR_BIT(tensor)) == 0) continue;
    unsigned char *at = run->lane->image.memory + layout->offset[tensor];
    if (tensor >= first) {
      tensors.at[tensor - first] = at;
      tensors.gap_begin[tensor - first] = end;
      tensors.gap_end[tensor - first] = at;
    }
    end = at + layout->shape[tensor].bytes;
  }
  return tensors;
}

#endif
