// Sparse convolution: the features of occupied cells in, a dense map seen from above out.
//
// The backbone of SECOND and CenterPoint. A level is a set of occupied cells (cloud, z, y, x) in a grid of one shape.
// Each cell has a row of features. The rows of level 0 are the input. A layer makes rows of `width` values. Along each
// axis it has a kernel of K offsets, a stride s and a padding p.
//
// - A submanifold layer makes a row for each row of its level. At offset k, output o reads input o + k - (K - 1) / 2.
// - A strided layer begins a level. An axis of n cells gets floor((n + 2 * p - K) / s) + 1 cells in the new level. Cell
//   o is occupied if some offset k has an occupied input i = o * s - p + k, with 0 <= i < n.
//
// Offsets kz, ky, kx along the axes have the number k = (kz * KY + ky) * KX + kx. Each norm is folded into the layer
// before it, in binary64, rounded once: with g = gamma / sqrt(variance + eps), the layer has the weights weight * g and
// the bias beta + (bias - mean) * g. Channel d of output o is
//   s = bias[d];  s = fma(x[i_k][c], weight[k][c][d], s)
// for the offsets k in ascending order that have an occupied input i_k, and for c = 0, 1, ... within each. Each fma
// rounds once, to binary32. If the layer `adds`, then s = s + r[o][d], where r is the input of the layer before. Then s
// becomes +0 unless s > 0, so NaN becomes +0. Subnormal numbers are kept.
//
// The map of a cloud has width * Z planes of Y * X values. The value d of a row (z, y, x) of the last level is in plane
// d * Z + z. All other values are +0.
//
// The input rows may be in any order. Rows and channels may be computed in any order. An offset without an input may be
// computed as a row of +0: all weights are finite, so s changes at most from -0 to +0. A processor without fused
// multiply-adds gets the same bits from binary64.
//
// With float16, the features of the first layer, all weights, and the outputs of all layers but the last are rounded to
// float16; numbers beyond +-65504 become +-65504. Sums, biases and additions stay binary32. The order of a sum depends
// on the kind of GPU.
//
// Pure functions. Any thread.
#ifndef VOXELD_KERNELS_SPARSE_H
#define VOXELD_KERNELS_SPARSE_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/error.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
  VX_MAX_SPARSE_LAYERS = 32,
  VX_MAX_SPARSE_LEVELS = 8,
  VX_MAX_SPARSE_SIDE = 1 << 15,  // maximum cells of a grid along an axis
  VX_MAX_SPARSE_KERNEL = 3,      // maximum offsets along an axis
  VX_MAX_SPARSE_OFFSETS = VX_MAX_SPARSE_KERNEL * VX_MAX_SPARSE_KERNEL * VX_MAX_SPARSE_KERNEL,
  VX_MAX_SPARSE_WIDTH = 128,  // maximum values of a row
  VX_SPARSE_WIDTH_STEP = 16,  // each layer's width is a multiple of it
};
#define VX_MAX_SPARSE_ROWS (INT64_C(1) << 27)  // maximum rows of a level

// Arrays of three are along z, y and x. Caller's memory. All values are finite.
struct vx_sparse_layer {
  const float *weight;  // [offsets, inputs, width]
  const float *bias;    // [width]
  int32_t inputs, width;
  int32_t kernel[3];   // 1 to VX_MAX_SPARSE_KERNEL; odd if submanifold
  int32_t stride[3];   // 1 or 2; unused if submanifold, as is `padding`
  int32_t padding[3];  // 0 or 1
  bool submanifold;
  bool adds;  // adds the input of the layer before; both layers are then submanifold
};

struct vx_sparse {
  int32_t shape[3];  // cells of level 0
  int32_t num_layers;
  struct vx_sparse_layer layers[VX_MAX_SPARSE_LAYERS];
};

// The input of a backbone. Caller's memory.
struct vx_sparse_rows {
  int32_t num_clouds, num_rows;
  const int32_t *coords;  // [num_rows, 4]: cloud, z, y, x; no two rows have the same cell
  const float *features;  // [num_rows, layers[0].inputs]
  int64_t max_rows;       // maximum rows of a level; 1 to VX_MAX_SPARSE_ROWS
  bool half;              // float16; only on a GPU
};

// The output of a backbone. The map is the caller's memory. The rows are the lane's, until its next sparse convolution.
struct vx_sparse_result {
  float *map;                                // in: room for vx_sparse_map_values values; NULL: not wanted
  int64_t level_rows[VX_MAX_SPARSE_LEVELS];  // filled even if the rows of a level are refused
  const int32_t *coords;                     // [rows of the last level, 4]: cloud, z, y, x; ascending
  const float *features;                     // [rows of the last level, width of the last layer]
};

// What follows from a backbone alone.
struct vx_sparse_plan {
  int32_t num_levels;
  int32_t shape[VX_MAX_SPARSE_LEVELS][3];
  int32_t level[VX_MAX_SPARSE_LAYERS];  // of each layer's outputs
  int32_t width;                        // of the last layer
};

// VX_REFUSED if the layers do not fit each other or a limit.
VX_WARN_UNUSED enum vx_status vx_sparse_plan_of(const struct vx_sparse *backbone, struct vx_sparse_plan *plan,
                                                struct error *error);

// VX_REFUSED if num_clouds, num_rows or max_rows is out of bounds, if num_rows > max_rows, or if the batch has too many
// clouds for the grid.
VX_WARN_UNUSED enum vx_status vx_sparse_rows_fit(const struct vx_sparse_plan *plan, const struct vx_sparse_rows *rows,
                                                 struct error *error);

// Errors that a backend finds during the run. Each function returns VX_REFUSED.

// A level has more than max_rows rows.
enum vx_status vx_sparse_refuse_rows(int32_t level, int64_t rows, int64_t max_rows, struct error *error);
// `row`: the first input row outside of the grid; `at`: its cloud, z, y, x.
enum vx_status vx_sparse_refuse_outside(int64_t row, const int32_t at[4], struct error *error);
enum vx_status vx_sparse_refuse_repeated(struct error *error);

static inline int32_t vx_sparse_offsets(const struct vx_sparse_layer *layer) {
  return layer->kernel[0] * layer->kernel[1] * layer->kernel[2];
}

// The stride and the padding that a layer applies along an axis.
static inline int32_t vx_sparse_stride(const struct vx_sparse_layer *layer, int axis) {
  return layer->submanifold ? 1 : layer->stride[axis];
}
static inline int32_t vx_sparse_padding(const struct vx_sparse_layer *layer, int axis) {
  return layer->submanifold ? (layer->kernel[axis] - 1) / 2 : layer->padding[axis];
}

static inline int64_t vx_sparse_map_values(const struct vx_sparse_plan *plan, int32_t num_clouds) {
  const int32_t *shape = plan->shape[plan->num_levels - 1];
  return (int64_t)num_clouds * plan->width * shape[0] * shape[1] * shape[2];
}

#ifdef __cplusplus
}
#endif
#endif
