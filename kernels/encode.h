// Encode: the points of each pillar in, one row of learned features out.
//
// This is the pillar feature network of PointPillars. Each norm is folded into the linear layer before it. The first
// layer's rows of a pillar are the rows of pillar_features for the points that the pillar keeps, in float32. If a
// pillar has fewer points than the cap, its padding takes part, as in OpenPCDet: one row of zeros stands for all the
// padding. A layer has weight w [C, D] and bias b [D]. Channel d of a row f [C] is
//   s = b[d];  s = s + f[c] * w[c][d]  for c = 0, 1, ... C - 1
// in float32, with each product and each sum rounded to nearest, in this order. Then s becomes +0 unless s > 0. NaN
// becomes +0 too, so one broken value of a point does not spread. m[d] is the largest value of channel d over all rows.
// The m of the last layer are the pillar's features. After any other layer, a row is its D values followed by all m, so
// the next layer has C = 2 * D.
//
// A maximum does not depend on the order of its values. So a backend may process rows and channels in any order, as
// long as each sum keeps its order. No tensor [voxels, cap, D] is ever in memory.
#ifndef VOXELD_KERNELS_ENCODE_H
#define VOXELD_KERNELS_ENCODE_H

#include "kernels/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
  VX_PILLAR_EXTRA = 6,  // inputs of the first layer in addition to the columns of a point
  VX_MAX_ENCODER_LAYERS = 4,
};

// The memory is the caller's and outlives the job. All values are finite.
struct vx_encoder_layer {
  const float *weight;  // [inputs, width]
  const float *bias;    // [width]
  int32_t inputs, width;
};

struct vx_encoder {
  int32_t num_layers;  // 0: no encoder
  struct vx_encoder_layer layers[VX_MAX_ENCODER_LAYERS];
};

// The number of features of a pillar; 0 without an encoder.
int32_t vx_encoder_width(const struct vx_encoder *encoder);

// VX_REFUSED with a reason if there is no encoder, if its layers do not fit each other, or if they do not fit points
// with this many columns.
VX_WARN_UNUSED enum vx_status vx_encoder_fits(const struct vx_encoder *encoder, int64_t columns, struct error *error);

#ifdef __cplusplus
}
#endif
#endif
