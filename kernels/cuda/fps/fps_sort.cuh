// The rows of each cloud in the order of a space-filling curve, and what its candidates have in common.
#ifndef VOXELD_CUDA_FPS_SORT_CUH
#define VOXELD_CUDA_FPS_SORT_CUH

#include "kernels/cuda/base/run.cuh"

enum {
  FPS_CURVE_BITS = 10,               // of a coordinate
  FPS_FINE_BITS = 6,                 // the last bits of a place on the curve
  FPS_FAR_BIT = 3 * FPS_CURVE_BITS,  // of a sorting key: a row that is not finite, behind all others of its cloud
  FPS_CLOUD_BIT = FPS_FAR_BIT + 1,   // lowest bit of the cloud's number
  FPS_BUCKET = 32,                   // rows of a bucket; a multiple of this for clouds of millions
};

// What the candidates of a cloud have in common. Coordinates are integers that are ordered as the floats are.
struct cuda_fps_box {
  int32_t low[3], high[3];
  uint32_t first, first_from_start;  // candidates; CUDA_NO_POINT if there is none
};

// Bytes of temporary storage that the sort needs.
VX_WARN_UNUSED enum vx_status cuda_fps_measure_sort(const struct cuda_run *run, size_t *bytes, struct error *error);
// Enqueues the count of the candidates and, if any are to be sampled, their ordering.
VX_WARN_UNUSED enum vx_status cuda_fps_sort(const struct cuda_run *run, struct error *error);

#endif
