// See range_image.h. Pure functions. Any thread.
#include "kernels/range_image.h"

static bool are_channels(const struct vx_range_image *params, int64_t columns) {
  bool fit = params->num_channels >= 1 && params->num_channels <= VX_MAX_IMAGE_CHANNELS;
  for (int32_t i = 0; fit && i < params->num_channels; i++)
    fit = params->channels[i] >= VX_DISTANCE_CHANNEL && params->channels[i] < columns;
  return fit;
}

enum vx_status vx_check_range_image(const struct vx_range_image *params, int64_t columns, int32_t num_clouds,
                                    struct error *error) {
  if (params->height < 1 || params->height > VX_MAX_IMAGE_HEIGHT || params->width < 1 ||
      params->width > VX_MAX_IMAGE_WIDTH)
    return vx_refuse(error, "an image of %d x %d pixels; allowed: up to %d x %d", (int)params->height,
                     (int)params->width, VX_MAX_IMAGE_HEIGHT, VX_MAX_IMAGE_WIDTH);
  if ((int64_t)params->height * params->width > VX_MAX_PIXELS / num_clouds)
    return vx_refuse(error, "%d images of %d x %d pixels have more than 2^26 pixels in all", (int)num_clouds,
                     (int)params->height, (int)params->width);
  if (!are_channels(params, columns)) return vx_refuse(error, "the points do not have the channels of the image");
  if (params->rows == VX_ROWS_ELEVATION)
    return vx_view_of(params).span > 0 ? VX_OK : vx_refuse(error, "the field of view is empty");
  return params->ring >= VX_KITTI_RINGS && params->ring < columns
             ? VX_OK
             : vx_refuse(error, "the points do not have the column of the rings");
}
