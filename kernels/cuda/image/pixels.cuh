// The pixel of a point on a GPU: the pixel that kernels/range_image.h finds, for most points in float32.
//
// A column or a row is a double, rounded down. Its float32 has an error. Unless a whole number is within that error,
// rounding down gives the same result. With 2,048 columns, one point of 1,000 needs the double.
#ifndef VOXELD_CUDA_PIXELS_CUH
#define VOXELD_CUDA_PIXELS_CUH

#include <cuda_runtime.h>

#include "kernels/range_image.h"

// Upper bounds of the sums of all rounding errors: of a column divided by the width, and of a row's angle in turns.
#define CUDA_COLUMN_ERROR 2.5e-7f
#define CUDA_ROW_ERROR 3e-7f

struct cuda_view_of_image {
  struct vx_view exact;
  float width, column_error;   // in columns
  float up, scale, row_error;  // the upper border in turns, rows per turn, and the error of a row
};

static inline struct cuda_view_of_image cuda_view_of_image(const struct vx_range_image *params) {
  struct cuda_view_of_image view = {};
  view.exact = vx_view_of(params);
  view.width = (float)params->width;
  view.column_error = view.width * CUDA_COLUMN_ERROR;
  view.up = (float)(view.exact.up / (2 * VX_PI));
  view.scale = (float)(view.exact.height / view.exact.span * (2 * VX_PI));
  view.row_error = view.scale * CUDA_ROW_ERROR;
  return view;
}

// The angle of (x, y) in turns, from -1/2 to 1/2. NaN for (0, 0). The polynomial has the least error up to 1/8.
static __device__ inline float cuda_turns(float y, float x) {
  float across = fabsf(x), up = fabsf(y), u = fminf(across, up) / fmaxf(across, up), z = u * u;
  float turns = -0.0006453044f;
  turns = turns * z + 0.0034795979f;
  turns = turns * z - 0.008898723f;
  turns = turns * z + 0.0153460335f;
  turns = turns * z - 0.022136271f;
  turns = turns * z + 0.031745944f;
  turns = turns * z - 0.053046122f;
  turns = (turns * z + 0.15915483f) * u;
  turns = up > across ? 0.25f - turns : turns;
  turns = x < 0 ? 0.5f - turns : turns;
  return y < 0 ? -turns : turns;
}

// Whether the exact value, rounded down, is known. Writes the result to `whole`. False for NaN.
static __device__ inline bool cuda_is_whole_known(float value, float error, float *whole) {
  *whole = floorf(value);
  float part = value - *whole;
  return part > error && part < 1 - error;
}

static __device__ inline int32_t cuda_image_column(const struct cuda_view_of_image &view, float x, float y) {
  float column;
  if (cuda_is_whole_known((0.5f - cuda_turns(y, x)) * view.width, view.column_error, &column)) return (int32_t)column;
  return (int32_t)vx_image_column(&view.exact, x, y);
}

// By elevation; -1 if the point is dropped. The square must neither overflow nor lose bits.
static __device__ inline int32_t cuda_image_row(const struct cuda_view_of_image &view, enum vx_outside outside, float x,
                                                float y, float z) {
  float square = x * x + y * y, row;
  bool known = square > 1e-30f && square < 1e30f &&
               cuda_is_whole_known((view.up - cuda_turns(z, sqrtf(square))) * view.scale, view.row_error, &row);
  return (int32_t)vx_row_in_image(&view.exact, outside, known ? (double)row : vx_image_row(&view.exact, x, y, z));
}

#endif
