// Farthest point sampling on a GPU: of the points of a job, or of its voxels' means.
//
// The rows of each cloud are put in the order of a space-filling curve (fps_sort.cu), so that each 32 neighbours in
// that order, a bucket, lie in a small box. Then one kernel takes sample after sample (fps_sample.cu): a bucket whose
// box is farther from the new sample than its points are from the earlier ones needs no look, so that a step is not so
// much work as a few messages. At the end the chosen rows are written into the image of the output (fps.cu).
#ifndef VOXELD_CUDA_FPS_CUH
#define VOXELD_CUDA_FPS_CUH

#include "kernels/cuda/run.cuh"

enum {
  FPS_CURVE_BITS = 10,               // of a coordinate
  FPS_FINE_BITS = 6,                 // the last of a place on the curve
  FPS_FAR_BIT = 3 * FPS_CURVE_BITS,  // of a sorting key: not finite, so behind all others of its cloud
  FPS_CLOUD_BIT = FPS_FAR_BIT + 1,   // lowest bit of the cloud's number
  FPS_BUCKET = 32,                   // rows of a bucket, or a multiple of that for clouds of millions
};

// What the candidates of a cloud have in common. Coordinates are held as integers of the same order.
struct cuda_fps_box {
  int32_t low[3], high[3];
  uint32_t first, first_from_start;  // candidates; CUDA_NO_POINT if there is none
};

VX_WARN_UNUSED enum vx_status cuda_fps_measure_sort(const struct cuda_run *run, size_t *bytes, struct vx_error *error);
// What the device can do for the kernel that samples.
VX_WARN_UNUSED enum vx_status cuda_fps_prepare_device(struct vx_device *device, struct vx_error *error);

#endif
