// Range image: turns points into an image of what the sensor sees. Pure functions, most of them for C and CUDA.
//
// Each point whose x, y and z are finite has a pixel, in double precision with exact.h:
//   column  floor((0.5 - yaw / (2 pi)) * width), where yaw = vx_atan2(y, x); a column of `width` becomes 0
//   row     by elevation: floor((up - pitch) / (up - down) * height), where pitch = vx_atan2(z, sqrt(x*x + y*y)), and
//           up and down are fov_up * (pi / 180) and fov_down * (pi / 180)
//           by ring (rings.h): height - 1 - ring, or `ring` with VX_ROWS_RING_DOWN
// If a row by elevation is outside the image, VX_OUTSIDE_CLAMP takes the nearest row, and VX_OUTSIDE_DROP drops the
// point. A point whose row by ring is outside the image, or that has no ring, is dropped.
//
// A pixel keeps one of its points: the nearest, the farthest, or the first or the last in the input. Of several nearest
// or farthest points it keeps the first in the input. The distance of a point is sqrtf((x*x + y*y) + z*z), in float32.
//
// Each point has one fate: not_finite, outside_image (dropped), occluded (its pixel keeps another point), or kept.
//
// A channel of a pixel is a column of its point, bit for bit, or its distance. With means and stds it is
// (value - mean) / std in float32, and NaN has the bits VX_FLOAT_NAN. A pixel without a point has `empty` in all
// channels.
#ifndef VOXELD_RANGE_IMAGE_H
#define VOXELD_RANGE_IMAGE_H

#include "kernels/exact.h"
#include "kernels/half.h"
#include "kernels/rings.h"
#include "kernels/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
  VX_MAX_IMAGE_HEIGHT = 1024,
  VX_MAX_IMAGE_WIDTH = 65536,
  VX_MAX_IMAGE_CHANNELS = 16,
  VX_DISTANCE_CHANNEL = -1,  // in place of a column
};
#define VX_MAX_PIXELS (INT64_C(1) << 26)  // of the images of all clouds
#define VX_NO_PIXEL (-1)                  // the point is outside the image
#define VX_NOT_FINITE_PIXEL (-2)          // the point is not finite
#define VX_EMPTY_KEY UINT64_MAX           // of a pixel without a point

#define VX_RANGE_IMAGE_TENSORS                                                                                         \
  (VX_TENSOR_BIT(VX_RANGE_IMAGE) | VX_TENSOR_BIT(VX_RANGE_INDICES) | VX_TENSOR_BIT(VX_RANGE_MASK) |                    \
   VX_TENSOR_BIT(VX_POINT_PIXELS) | VX_TENSOR_BIT(VX_POINT_RANGES) | VX_TENSOR_BIT(VX_PIXEL_COORDS) |                  \
   VX_TENSOR_BIT(VX_POINT_PIXEL_ROWS))

enum vx_image_rows { VX_ROWS_ELEVATION, VX_ROWS_RING, VX_ROWS_RING_DOWN };
enum vx_winner { VX_WINNER_NEAREST, VX_WINNER_FARTHEST, VX_WINNER_FIRST, VX_WINNER_LAST };
enum vx_outside { VX_OUTSIDE_CLAMP, VX_OUTSIDE_DROP };

struct vx_range_image {
  int32_t height, width;    // 1..VX_MAX_IMAGE_HEIGHT, 1..VX_MAX_IMAGE_WIDTH
  double fov_up, fov_down;  // degrees; for rows by elevation
  enum vx_image_rows rows;
  int32_t ring;  // the column of the rings, or VX_KITTI_RINGS; for rows by ring
  enum vx_outside outside;
  enum vx_winner winner;
  float empty;
  int32_t num_channels;                     // 1..VX_MAX_IMAGE_CHANNELS
  int32_t channels[VX_MAX_IMAGE_CHANNELS];  // columns, or VX_DISTANCE_CHANNEL
  int32_t num_means, num_stds;              // both num_channels, or both 0
  float means[VX_MAX_IMAGE_CHANNELS], stds[VX_MAX_IMAGE_CHANNELS];
};

// The field of view in radians, and the size of the image in pixels.
struct vx_view {
  double up, span, height, width;
};

static inline struct vx_view vx_view_of(const struct vx_range_image *params) {
  double up = params->fov_up * (VX_PI / 180), down = params->fov_down * (VX_PI / 180);
  struct vx_view view = {up, up - down, (double)params->height, (double)params->width};
  return view;
}

// A whole number from 0 to width - 1.
VX_SHARED double vx_image_column(const struct vx_view *view, double x, double y) {
  double column = floor((0.5 - vx_atan2(y, x) / (2 * VX_PI)) * view->width);
  return column < view->width ? column : 0;
}

// The row of a point by elevation: a whole number, perhaps outside the image, or an infinity.
VX_SHARED double vx_image_row(const struct vx_view *view, double x, double y, double z) {
  double pitch = vx_atan2(z, sqrt(x * x + y * y));
  return floor((view->up - pitch) / view->span * view->height);
}

// The row in the image for a row by elevation; -1 if the point is dropped.
VX_SHARED double vx_row_in_image(const struct vx_view *view, enum vx_outside outside, double row) {
  double within = row < 0 ? 0 : row < view->height ? row : view->height - 1;
  return outside == VX_OUTSIDE_CLAMP || within == row ? within : -1;
}

// The row of a ring; -1 if it is not in the image.
VX_SHARED int32_t vx_row_of_ring(const struct vx_range_image *params, int32_t ring) {
  if (ring < 0 || ring >= params->height) return -1;
  return params->rows == VX_ROWS_RING ? params->height - 1 - ring : ring;
}

// The pixel keeps its point with the least key.
VX_SHARED uint64_t vx_image_key(enum vx_winner winner, float distance, uint32_t row) {
  if (winner == VX_WINNER_FIRST) return row;
  if (winner == VX_WINNER_LAST) return (uint32_t)~row;
  uint32_t bits = vx_float_bits(distance);
  return (uint64_t)(winner == VX_WINNER_NEAREST ? bits : ~bits) << 32 | row;
}

VX_SHARED uint32_t vx_row_of_key(enum vx_winner winner, uint64_t key) {
  return winner == VX_WINNER_LAST ? ~(uint32_t)key : (uint32_t)key;
}

// A channel of a point. `value`: the point's column of the channel, or its distance.
VX_SHARED float vx_image_value(const struct vx_range_image *params, int32_t channel, float value) {
  if (params->num_means == 0) return value;
  value = (value - params->means[channel]) / params->stds[channel];
  return vx_canonical(value);
}

// Whether the rows are rings that are found by counting turns (rings.h).
static inline bool vx_counts_turns(const struct vx_range_image *params) {
  return params->rows != VX_ROWS_ELEVATION && params->ring == VX_KITTI_RINGS;
}

// VX_REFUSED if the parameters do not fit points with `columns` columns in `num_clouds` clouds.
VX_WARN_UNUSED enum vx_status vx_check_range_image(const struct vx_range_image *params, int64_t columns,
                                                   int32_t num_clouds, struct error *error);

#ifdef __cplusplus
}
#endif
#endif
