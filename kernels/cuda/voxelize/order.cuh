// Ascending order of rows and of points.
#ifndef VOXELD_CUDA_ORDER_CUH
#define VOXELD_CUDA_ORDER_CUH

#include "kernels/cuda/base/run.cuh"

// Orders rows by the marks of their cells.
VX_WARN_UNUSED enum vx_status cuda_order_rows(const struct cuda_run *run, struct error *error);
// Sorts the rows of a grid that is too large for marks by cub. Expects run->sizes.
VX_WARN_UNUSED enum vx_status cuda_sort_rows(const struct cuda_run *run, struct error *error);
// Sorts all points by their cells by cub, if a list is too long for any block.
VX_WARN_UNUSED enum vx_status cuda_sort_lists(const struct cuda_run *run, struct error *error);

#endif
