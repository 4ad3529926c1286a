// Sparse convolution on a GPU, for C and CUDA.
#ifndef VOXELD_CUDA_SPARSE_H
#define VOXELD_CUDA_SPARSE_H

#include "kernels/kernels.h"
#include "kernels/sparse.h"

#ifdef __cplusplus
extern "C" {
#endif

// Enqueues the kernels for the rows of the last level and their map. Then waits for the numbers of rows, which the
// device publishes before the first layer. Weights, rows, map and result are memory that the device can access, aligned
// to 16 bytes. The map overlaps none of the others, and is cleared while the layers run. VX_REFUSED without any
// convolution if the rows or the levels do not fit. Even after an error, kernels may use the memory until the lane's
// stream has ended.
VX_WARN_UNUSED enum vx_status cuda_sparse(struct vx_lane *lane, const struct vx_sparse *backbone,
                                          const struct vx_sparse_rows *rows, struct vx_sparse_result *result,
                                          struct error *error);

// Releases what the lane keeps of its last sparse convolution. Nothing may be enqueued in the lane's stream.
void cuda_sparse_release(struct vx_lane *lane);

// Waits without sleep for the lane's stream. For tests and measurements.
VX_WARN_UNUSED enum vx_status cuda_sparse_wait(struct vx_lane *lane, struct error *error);

#ifdef __cplusplus
}
#endif
#endif
