// Encode: the points of each pillar in, one row of learned features out.
//
// This is the pillar feature network of PointPillars with its norm folded into a linear layer: for each point of a
// pillar a linear layer and ReLU, then the largest value over the pillar. f is the point's row of pillar_features
// [C = columns + 6] in float32, w the weight [C, D], b the bias [D]. Channel d of the point is
//   s = b[d];  s = s + f[c] * w[c][d]  for c = 0, 1, ... C - 1
// in float32, each product and each sum rounded to nearest, in this order. Channel d of the pillar is the largest s of
// its kept points. If the pillar has fewer points than the cap, its padding takes part, as in OpenPCDet: one more s is
// b[d]. The result is never below 0, and a 0 is always +0. A sum that is NaN does not count, so that one broken value
// of a point does not spread.
//
// The largest of several numbers does not depend on their order. So a backend may go over points and channels in any
// order, as long as each sum keeps its own. No [voxels, cap, D] is ever in memory.
#ifndef VOXELD_KERNELS_ENCODE_H
#define VOXELD_KERNELS_ENCODE_H

#include "kernels/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { VX_PILLAR_EXTRA = 6 };  // channels of a pillar beside the columns of a point

// The memory is the caller's and outlives the job. All values are finite.
struct vx_encoder {
  const float *weight;  // [channels, width]
  const float *bias;    // [width]
  int32_t channels;     // C: columns of a point, and 6
  int32_t width;        // D; 0: there is no encoder
};

// VX_REFUSED with a reason if the encoder is not for points of so many columns, or there is no cap.
VX_WARN_UNUSED enum vx_status vx_encoder_fits(const struct vx_encoder *encoder, int64_t columns, int32_t cap,
                                              struct vx_error *error);

#ifdef __cplusplus
}
#endif
#endif
