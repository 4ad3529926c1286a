// Encode: the points of each pillar in, one row of learned features out.
//
// The pillar feature network of PointPillars, with each norm folded into the linear layer before it. The first layer's
// rows are those of pillar_features for the points that the pillar keeps, in float32. If a pillar has fewer points than
// the cap, a row of zeros stands for its padding, as in OpenPCDet. A layer has weight w [C, D] and bias b [D]. Channel
// d of a row f [C] is
//   s = b[d];  s = s + f[c] * w[c][d]  for c = 0, 1, ... C - 1
// in float32, with each product and each sum rounded to nearest, in this order. Then s becomes +0 unless s > 0, so NaN
// becomes +0. m[d] is the largest value of channel d over all rows. The m of the last layer are the pillar's features.
// After any other layer, a row is its D values followed by all m, so the next layer has C = 2 * D.
//
// A backend may process rows and channels in any order, as long as each sum keeps its order.
#ifndef VOXELD_KERNELS_ENCODE_H
#define VOXELD_KERNELS_ENCODE_H

#include "kernels/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
  VX_PILLAR_EXTRA = 6,  // inputs of the first layer after the columns of a point
  VX_MAX_ENCODER_LAYERS = 4,
};

// The caller's memory, which outlives the job. All values are finite.
struct vx_encoder_layer {
  const float *weight;  // [inputs, width]
  const float *bias;    // [width]
  int32_t inputs, width;
};

struct vx_encoder {
  int32_t num_layers;  // 0: no encoder
  struct vx_encoder_layer layers[VX_MAX_ENCODER_LAYERS];
};

// Features of a pillar; 0 without an encoder.
int32_t vx_encoder_width(const struct vx_encoder *encoder);

// VX_REFUSED if there is no encoder, or if its layers do not fit each other or points with this many columns.
VX_WARN_UNUSED enum vx_status vx_encoder_fits(const struct vx_encoder *encoder, int64_t columns, struct error *error);

#ifdef __cplusplus
}
#endif
#endif
