// Whole lists in input order.
#ifndef VOXELD_CUDA_LISTS_CUH
#define VOXELD_CUDA_LISTS_CUH

#include "kernels/cuda/base/run.cuh"

// Orders whole lists and takes the sums that are trees. `sorted`: the lists are in order already.
VX_WARN_UNUSED enum vx_status cuda_order_lists(const struct cuda_run *run, bool sorted, struct error *error);

#endif
