// The stage of a voxelization that orders the lists of points, by lists.cuh.
#include "kernels/cuda/voxelize/lists.cuh"

template <enum lists lists>
static __global__ void __launch_bounds__(LISTS_BLOCK, 3)
    order_lists_kernel(const __grid_constant__ struct voxel_view v, bool ready) {
  order_lists<lists>(v, ready, cuda_unused());
}

enum vx_status cuda_order_lists(const struct cuda_run *run, bool sorted, struct error *error) {
  if (sorted && !run->means) return VX_OK;
  auto kernel = run->picked ? order_lists_kernel<PICKED> : order_lists_kernel<PLAIN>;
  return cuda_launch("order_lists_kernel", kernel, cuda_list_blocks(run), LISTS_BLOCK, 0, run, error, *run, sorted);
}
