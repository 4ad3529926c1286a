// Encode: the points of each pillar in, one row of learned features out.
//
// This is the pillar feature network of PointPillars, each norm folded into the linear layer before it. A pillar's rows
// are the rows of pillar_features of its kept points, in float32. If it has fewer points than the cap, its padding
// takes part, as in OpenPCDet: one more row, of zeros, stands for all of it. Channel d of a layer with weight w [C, D]
// and bias b [D] is for the row f [C]
//   s = b[d];  s = s + f[c] * w[c][d]  for c = 0, 1, ... C - 1
// in float32, each product and each sum rounded to nearest, in this order; then s if s > 0, else +0, also if it is NaN:
// one broken value of a point does not spread. The layer's largest value of channel d over the rows is m[d]. That of
// the last layer is the pillar's feature. After any other layer a row goes on as its D values followed by all m, so the
// next layer has C = 2 * D.
//
// The largest of several numbers does not depend on their order. So a backend may go over rows and channels in any
// order, as long as each sum keeps its own. No [voxels, cap, D] is ever in memory.
#ifndef VOXELD_KERNELS_ENCODE_H
#define VOXELD_KERNELS_ENCODE_H

#include "kernels/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
  VX_PILLAR_EXTRA = 6,  // inputs of the first layer beside the columns of a point
  VX_MAX_ENCODER_LAYERS = 4,
};

// The memory is the caller's and outlives the job. All values are finite.
struct vx_encoder_layer {
  const float *weight;  // [inputs, width]
  const float *bias;    // [width]
  int32_t inputs, width;
};

struct vx_encoder {
  int32_t num_layers;  // 0: there is no encoder
  struct vx_encoder_layer layers[VX_MAX_ENCODER_LAYERS];
};

// The features of a pillar; 0 without an encoder.
int32_t vx_encoder_width(const struct vx_encoder *encoder);

// VX_REFUSED with a reason if there is no encoder, or its layers are not for each other or for points of so many
// columns.
VX_WARN_UNUSED enum vx_status vx_encoder_fits(const struct vx_encoder *encoder, int64_t columns, struct error *error);

#ifdef __cplusplus
}
#endif
#endif
