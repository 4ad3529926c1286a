// Farthest point sampling of each cloud. The operation fps samples points. A voxelization samples the means of its
// voxels, as its last step.
//
// The candidates are the points whose x, y and z are finite, or the voxels whose means are finite: float32, in the
// order of the rows. The first sample is the first candidate numbered `start` or above; if there is none, the first
// candidate. Each next sample is the candidate with the largest distance to its nearest sample so far; of several at
// the same distance, the first. Distances are squared, in float32: (dx*dx + dy*dy) + dz*dz. Numbers count all points or
// voxels of the cloud from 0, candidates or not. If a chain has dropped points, `start` counts only the points that the
// chain left.
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
  bool stacked;      // true: the samples of all clouds form one list; false: each cloud has a row of the same length
  int64_t max_work;  // maximum of points (or voxels) times samples, summed over the clouds
};

struct vx_fps {
  struct vx_sampling sampling;  // of the points; enabled
};

#ifdef __cplusplus
}
#endif
#endif
