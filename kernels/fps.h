// Farthest point sampling of each cloud on its own: of its points, as an operation, or of the means of its voxels, as
// the last step of a voxelization.
//
// The candidates are those points, or voxel means as float32 in the order of the rows, whose x, y and z are finite. The
// first sample is the first candidate from number `start` on or, if none follows, of all. Each next one is the
// candidate of the largest distance to those chosen before it, the first of these if there are several; distances are
// float32, squared: (dx*dx + dy*dy) + dz*dz. Numbers count the cloud's points or voxels from 0, the others that are not
// candidates included.
#ifndef VOXELD_FPS_H
#define VOXELD_FPS_H

#include "kernels/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

#define VX_SAMPLED_TENSORS                                                                                             \
  (VX_TENSOR_BIT(VX_SAMPLED_INDICES) | VX_TENSOR_BIT(VX_SAMPLED_POINTS) | VX_TENSOR_BIT(VX_SAMPLED_DISTANCES))

struct vx_sampling {
  bool enabled;
  int32_t start;
  bool stacked;      // all clouds' samples follow on each other; else each cloud has as many, and a row of them
  int64_t max_work;  // the most that points (or voxels) times samples, summed over the clouds, may be
};

struct vx_fps {
  struct vx_sampling sampling;  // of the points; enabled
};

#ifdef __cplusplus
}
#endif
#endif
