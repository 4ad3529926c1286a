// See sparse.h. Pure functions. Any thread.
#include "kernels/sparse.h"

#include <string.h>

static const char axes[] = "zyx";

static bool is_between(int32_t value, int32_t least, int32_t most) { return value >= least && value <= most; }

static enum vx_status check_shape(const int32_t shape[3], struct error *error) {
  for (int axis = 0; axis < 3; axis++) {
    if (!is_between(shape[axis], 1, VX_MAX_SPARSE_SIDE)) {
      return vx_refuse(error, "the backbone's grid has %d cells along %c; sparse convolution takes 1 to %d",
                       (int)shape[axis], axes[axis], VX_MAX_SPARSE_SIDE);
    }
  }
  return VX_OK;
}

static enum vx_status check_kernel(const struct vx_sparse_layer *layer, int32_t number, struct error *error) {
  for (int axis = 0; axis < 3; axis++) {
    int32_t kernel = layer->kernel[axis];
    if (!is_between(kernel, 1, VX_MAX_SPARSE_KERNEL) || (layer->submanifold && kernel % 2 == 0)) {
      return vx_refuse(error, "layer %d of the backbone has a kernel of %d along %c; %s", (int)number, (int)kernel,
                       axes[axis], layer->submanifold ? "a submanifold layer takes 1 or 3" : "a layer takes 1 to 3");
    }
    if (layer->submanifold) continue;
    if (!is_between(layer->stride[axis], 1, 2) || !is_between(layer->padding[axis], 0, 1)) {
      return vx_refuse(error,
                       "layer %d of the backbone has stride %d and padding %d along %c; a layer takes stride 1 or 2 "
                       "and padding 0 or 1",
                       (int)number, (int)layer->stride[axis], (int)layer->padding[axis], axes[axis]);
    }
  }
  return VX_OK;
}

static enum vx_status check_widths(const struct vx_sparse *backbone, int32_t number, struct error *error) {
  const struct vx_sparse_layer *layer = &backbone->layers[number];
  if (!is_between(layer->width, 1, VX_MAX_SPARSE_WIDTH) || layer->width % VX_SPARSE_WIDTH_STEP != 0) {
    return vx_refuse(error,
                     "layer %d of the backbone makes %d channels; sparse convolution makes %d to %d, in steps of %d",
                     (int)number, (int)layer->width, VX_SPARSE_WIDTH_STEP, VX_MAX_SPARSE_WIDTH, VX_SPARSE_WIDTH_STEP);
  }
  int32_t before = number == 0 ? layer->inputs : layer[-1].width;
  if (layer->inputs != before || !is_between(layer->inputs, 1, VX_MAX_SPARSE_WIDTH)) {
    return vx_refuse(error, "layer %d of the backbone takes %d channels; it gets %d, and a layer takes 1 to %d",
                     (int)number, (int)layer->inputs, (int)before, VX_MAX_SPARSE_WIDTH);
  }
  if (!layer->adds) return VX_OK;
  if (number == 0)
    return vx_refuse(error, "layer 0 of the backbone adds the input of the layer before; there is no layer before");
  if (!layer->submanifold || !layer[-1].submanifold || layer[-1].inputs != layer->width) {
    return vx_refuse(error,
                     "layer %d of the backbone adds the input of the layer before, which has other rows or channels",
                     (int)number);
  }
  return VX_OK;
}

// Appends the level that a strided layer begins.
static enum vx_status begin_level(const struct vx_sparse_layer *layer, int32_t number, struct vx_sparse_plan *plan,
                                  struct error *error) {
  const int32_t *from = plan->shape[plan->num_levels - 1];
  if (plan->num_levels == VX_MAX_SPARSE_LEVELS)
    return vx_refuse(error, "layer %d of the backbone begins another level; a backbone has at most %d levels",
                     (int)number, VX_MAX_SPARSE_LEVELS);
  int32_t *to = plan->shape[plan->num_levels++];
  for (int axis = 0; axis < 3; axis++) {
    int32_t room = from[axis] + 2 * layer->padding[axis] - layer->kernel[axis];
    if (room < 0) {
      return vx_refuse(error, "layer %d of the backbone leaves no cell of %d along %c", (int)number, (int)from[axis],
                       axes[axis]);
    }
    to[axis] = room / layer->stride[axis] + 1;
  }
  return check_shape(to, error);
}

enum vx_status vx_sparse_plan_of(const struct vx_sparse *backbone, struct vx_sparse_plan *plan, struct error *error) {
  if (!is_between(backbone->num_layers, 1, VX_MAX_SPARSE_LAYERS))
    return vx_refuse(error, "the backbone has %d layers; sparse convolution takes 1 to %d", (int)backbone->num_layers,
                     VX_MAX_SPARSE_LAYERS);
  *plan = (struct vx_sparse_plan){.num_levels = 1};
  memcpy(plan->shape[0], backbone->shape, sizeof plan->shape[0]);
  enum vx_status status = check_shape(plan->shape[0], error);
  for (int32_t i = 0; status == VX_OK && i < backbone->num_layers; i++) {
    const struct vx_sparse_layer *layer = &backbone->layers[i];
    status = check_kernel(layer, i, error);
    if (status == VX_OK) status = check_widths(backbone, i, error);
    if (status == VX_OK && !layer->submanifold) status = begin_level(layer, i, plan, error);
    plan->level[i] = plan->num_levels - 1;
    plan->width = layer->width;
  }
  return status;
}

enum vx_status vx_sparse_rows_fit(const struct vx_sparse_plan *plan, const struct vx_sparse_rows *rows,
                                  struct error *error) {
  if (rows->num_clouds < 1 || rows->num_rows < 0 || rows->max_rows < 1 || rows->max_rows > VX_MAX_SPARSE_ROWS)
    return vx_refuse(error,
                     "%d clouds with %d rows, and a limit of %lld rows of a level; allowed: 1 cloud or more, and a "
                     "limit of 1 to %lld",
                     (int)rows->num_clouds, (int)rows->num_rows, (long long)rows->max_rows,
                     (long long)VX_MAX_SPARSE_ROWS);
  for (int32_t level = 0; level < plan->num_levels; level++) {
    int64_t lines = (int64_t)plan->shape[level][0] * plan->shape[level][1];
    if (lines > (INT32_MAX - 1) / rows->num_clouds) {
      return vx_refuse(error, "%d clouds are too many for a grid of %d x %d x %d cells", (int)rows->num_clouds,
                       (int)plan->shape[level][0], (int)plan->shape[level][1], (int)plan->shape[level][2]);
    }
  }
  return rows->num_rows > rows->max_rows ? vx_sparse_refuse_rows(0, rows->num_rows, rows->max_rows, error) : VX_OK;
}

enum vx_status vx_sparse_refuse_rows(int32_t level, int64_t rows, int64_t max_rows, struct error *error) {
  return vx_refuse(error, "level %d of the backbone has %lld rows; the most is %lld", (int)level, (long long)rows,
                   (long long)max_rows);
}

enum vx_status vx_sparse_refuse_outside(int64_t row, const int32_t at[4], struct error *error) {
  return vx_refuse(error, "row %lld is at (%d, %d, %d) of cloud %d, which is outside of the grid", (long long)row,
                   (int)at[1], (int)at[2], (int)at[3], (int)at[0]);
}

enum vx_status vx_sparse_refuse_repeated(struct error *error) {
  return vx_refuse(error, "several rows have the same cell");
}
