// Whether an encoder fits a job; see encode.h. Pure functions: any thread may call them.
#include "kernels/encode.h"

enum vx_status vx_encoder_fits(const struct vx_encoder *encoder, int64_t columns, int32_t cap, struct vx_error *error) {
  if (encoder->width < 1) {
    return vx_refuse(error, "encoded_features needs an encoder");
  }
  if (encoder->channels != columns + VX_PILLAR_EXTRA) {
    return vx_refuse(error, "the encoder takes points of %d columns, not of %lld", encoder->channels - VX_PILLAR_EXTRA,
                     (long long)columns);
  }
  if (cap < 1) {
    return vx_refuse(error, "an encoder needs max_points_per_voxel to be at least 1");
  }
  return VX_OK;
}
