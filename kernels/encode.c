// See encode.h. Pure functions. Any thread.
#include "kernels/encode.h"

int32_t vx_encoder_width(const struct vx_encoder *encoder) {
  return encoder->num_layers == 0 ? 0 : encoder->layers[encoder->num_layers - 1].width;
}

enum vx_status vx_encoder_fits(const struct vx_encoder *encoder, int64_t columns, struct error *error) {
  if (encoder->num_layers < 1 || encoder->num_layers > VX_MAX_ENCODER_LAYERS)
    return vx_refuse(error, "encoded_features needs an encoder of 1 to %d layers", VX_MAX_ENCODER_LAYERS);
  int64_t inputs = columns + VX_PILLAR_EXTRA;
  for (int32_t i = 0; i < encoder->num_layers; i++) {
    const struct vx_encoder_layer *layer = &encoder->layers[i];
    if (layer->inputs != inputs || layer->width < 1 || layer->width > INT32_MAX / 2) {
      return vx_refuse(error,
                       "layer %d of the encoder has %d inputs and %d channels; for points with %lld columns "
                       "it needs %lld inputs",
                       (int)i, (int)layer->inputs, (int)layer->width, (long long)columns, (long long)inputs);
    }
    inputs = 2 * (int64_t)layer->width;
  }
  return VX_OK;
}
