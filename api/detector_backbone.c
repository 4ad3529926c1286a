// See detector_backbone.h.
#include "api/detector_backbone.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/base/json_write.h"

// ---- model.json -----------------------------------------------------------------------------------------------------

// Reads whole numbers along z, y and x.
static bool read_axes(const json_t *object, const char *where, const char *name, int32_t most, int32_t out[3],
                      struct error *error) {
  const json_t *list = json_object_get(object, name);
  bool good = json_array_size(list) == 3;
  for (size_t axis = 0; good && axis < 3; axis++) {
    const json_t *value = json_array_get(list, axis);
    json_int_t number = json_integer_value(value);
    good = json_is_integer(value) && number >= 0 && number <= most;
    out[axis] = (int32_t)number;
  }
  return good || error_set(error, MODEL "%s%s is not a list of three numbers from 0 to %d, along z, y and x", where,
                           name, (int)most);
}

// Reads the stride and the padding, which only a strided layer has.
static bool read_steps(const json_t *object, const char *where, struct vx_sparse_layer *layer, struct error *error) {
  static const char *const strided[] = {"stride", "padding"};
  for (int i = 0; layer->submanifold && i < 2; i++)
    if (json_object_get(object, strided[i]))
      return error_set(error, MODEL "%s%s is given; a submanifold layer has none", where, strided[i]);
  return layer->submanifold || (read_axes(object, where, "stride", VX_MAX_SPARSE_SIDE, layer->stride, error) &&
                                read_axes(object, where, "padding", VX_MAX_SPARSE_SIDE, layer->padding, error));
}

static bool read_kind(const json_t *object, const char *where, struct vx_sparse_layer *layer, struct error *error) {
  char kind[16];
  if (!part_read_text(object, where, "kind", kind, sizeof kind, error)) return false;
  layer->submanifold = strcmp(kind, "submanifold") == 0;
  return layer->submanifold || strcmp(kind, "strided") == 0 ||
         error_set(error, MODEL "%skind is '%s'; allowed: submanifold, strided", where, kind);
}

static bool read_adds(const json_t *object, const char *where, struct vx_sparse_layer *layer, struct error *error) {
  const json_t *adds = json_object_get(object, "adds");
  layer->adds = json_is_true(adds);
  return !adds || json_is_boolean(adds) || error_set(error, MODEL "%sadds is neither true nor false", where);
}

static bool read_layer(struct backbone *backbone, json_t *object, struct error *error) {
  static const char *const known[] = {"name", "kind", "in", "out", "kernel", "stride", "padding", "adds", NULL};
  int32_t number = backbone->layers.num_layers;
  struct vx_sparse_layer *layer = &backbone->layers.layers[number];
  char whole[32], where[40];
  int64_t inputs, width;
  snprintf(whole, sizeof whole, "backbone.layers[%d]", (int)number);
  snprintf(where, sizeof where, "%s.", whole);
  *layer = (struct vx_sparse_layer){.weight = NULL};
  if (!json_is_object(object)) return error_set(error, MODEL "%s is not an object", whole);
  if (!part_check_members(whole, object, known, error) ||
      !part_read_text(object, where, "name", backbone->names[number], BACKBONE_NAME_SIZE, error) ||
      !part_read_number(object, where, "in", 1, VX_MAX_SPARSE_WIDTH, &inputs, error) ||
      !part_read_number(object, where, "out", 1, VX_MAX_SPARSE_WIDTH, &width, error) ||
      !read_kind(object, where, layer, error) ||
      !read_axes(object, where, "kernel", VX_MAX_SPARSE_SIDE, layer->kernel, error) ||
      !read_steps(object, where, layer, error) || !read_adds(object, where, layer, error))
    return false;
  layer->inputs = (int32_t)inputs;
  layer->width = (int32_t)width;
  backbone->layers.num_layers++;
  return true;
}

static bool read_layers(struct backbone *backbone, const json_t *object, struct error *error) {
  const json_t *layers = json_object_get(object, "layers");
  size_t i, count = json_array_size(layers);
  json_t *layer;
  if (count < 1 || count > VX_MAX_SPARSE_LAYERS)
    return error_set(error, MODEL "backbone.layers is not a list of 1 to %d layers", VX_MAX_SPARSE_LAYERS);
  json_array_foreach(layers, i, layer) if (!read_layer(backbone, layer, error)) return false;
  return true;
}

// The grid has one plane more than the voxels along z, as in the projects that the models come from.
static bool check_grid(const struct backbone *backbone, const int32_t cells[3], struct error *error) {
  const int32_t *shape = backbone->layers.shape;
  return (shape[0] == cells[2] + 1 && shape[1] == cells[1] && shape[2] == cells[0]) ||
         error_set(error, MODEL "backbone.shape is [%d,%d,%d]; with these voxels it is [%d,%d,%d]", (int)shape[0],
                   (int)shape[1], (int)shape[2], (int)cells[2] + 1, (int)cells[1], (int)cells[0]);
}

static bool check_layers(struct backbone *backbone, int32_t columns, struct error *error) {
  int32_t inputs = backbone->layers.layers[0].inputs;
  if (inputs != columns)
    return error_set(error, MODEL "backbone.layers[0].in is %d; voxelize.num_features is %d", (int)inputs,
                     (int)columns);
  return vx_sparse_plan_of(&backbone->layers, &backbone->plan, error) == VX_OK || error_prefix(error, MODEL);
}

bool backbone_read_json(struct backbone *backbone, json_t *object, const int32_t cells[3], int32_t columns,
                        struct error *error) {
  static const char *const known[] = {"file", "shape", "layers", "max_rows", NULL};
  backbone->max_rows = VX_MAX_SPARSE_ROWS;
  return part_check_members("backbone", object, known, error) &&
         read_axes(object, "backbone.", "shape", VX_MAX_SPARSE_SIDE, backbone->layers.shape, error) &&
         check_grid(backbone, cells, error) && read_layers(backbone, object, error) &&
         check_layers(backbone, columns, error) &&
         (!json_object_get(object, "max_rows") ||
          part_read_number(object, "backbone.", "max_rows", 1, VX_MAX_SPARSE_ROWS, &backbone->max_rows, error));
}

// ---- weights --------------------------------------------------------------------------------------------------------

static const float *read_values(const struct backbone *backbone, const struct tensor_file *tensors, int32_t number,
                                const char *part, const int64_t *dims, int rank, struct error *error) {
  char name[BACKBONE_NAME_SIZE + 8];
  struct vx_input input = {.rank = 0};
  snprintf(name, sizeof name, "%s.%s", backbone->names[number], part);
  return part_find_tensor(tensors, name, dims, rank, &input, error) ? part_copy_values(&input, name, error) : NULL;
}

bool backbone_read_weights(struct backbone *backbone, const struct tensor_file *tensors, struct error *error) {
  for (int32_t i = 0; i < backbone->layers.num_layers; i++) {
    struct vx_sparse_layer *layer = &backbone->layers.layers[i];
    const int64_t weight[] = {vx_sparse_offsets(layer), layer->inputs, layer->width}, bias[] = {layer->width};
    layer->weight = read_values(backbone, tensors, i, "weight", weight, 3, error);
    if (!layer->weight) return false;
    layer->bias = read_values(backbone, tensors, i, "bias", bias, 1, error);
    if (!layer->bias) return false;
  }
  return true;
}

void backbone_free(struct backbone *backbone) {
  for (int32_t i = 0; i < backbone->layers.num_layers; i++) {
    free((void *)(uintptr_t)backbone->layers.layers[i].weight);
    free((void *)(uintptr_t)backbone->layers.layers[i].bias);
  }
}

// ---- writing --------------------------------------------------------------------------------------------------------

void backbone_write(const struct backbone *backbone, struct text *out) {
  json_printf(out, "channels:%d layers:%d width:%d max_rows:%ld levels:[", backbone->layers.layers[0].inputs,
              backbone->layers.num_layers, backbone->plan.width, backbone->max_rows);
  for (int32_t i = 0; i < backbone->plan.num_levels; i++) {
    const int32_t *shape = backbone->plan.shape[i];
    json_put_integers(out, (const int64_t[]){shape[0], shape[1], shape[2]}, 3);
  }
  json_printf(out, "]");
}
