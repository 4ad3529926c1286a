// Farthest point sampling of each cloud: of points (fps), or of the means of voxels (voxelize).
//
// The candidates are the points, or the means, with finite x, y and z: float32, in the order of the rows. The first
// sample is the first candidate numbered `start` or above; if there is none, the first candidate. Each next sample is
// the candidate with the largest distance to its nearest sample so far; of equal distances, the first. Distances are
// squared, in float32: (dx*dx + dy*dy) + dz*dz. Numbers count all points or voxels of the cloud from 0; after a chain,
// `start` counts the points that the chain left.
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
  bool stacked;      // true: the samples of all clouds form one list; false: all clouds have equally many, [B, S]
  int64_t max_work;  // maximum of points (or voxels) times samples, summed over the clouds
};

struct vx_fps {
  struct vx_sampling sampling;  // of the points; enabled
};

#ifdef __cplusplus
}
#endif
#endif
