// See detector_backbone.h.
#include "api/detector_backbone.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/base/json_write.h"

// ---- model.json -----------------------------------------------------------------------------------------------------

// Reads whole numbers from `least` to `most` along z, y and x.
static bool read_axes(const json_t *object, const char *where, const char *name, int32_t least, int32_t most,
                      int32_t out[3], struct error *error) {
  const json_t *list = json_object_get(object, name);
  bool good = json_array_size(list) == 3;
  for (size_t axis = 0; good && axis < 3; axis++) {
    const json_t *value = json_array_get(list, axis);
    json_int_t number = json_integer_value(value);
    good = json_is_integer(value) && number >= least && number <= most;
    out[axis] = (int32_t)number;
  }
  return good || error_set(error, MODEL "%s%s is not a list of three numbers from %d to %d, along z, y and x", where,
                           name, (int)least, (int)most);
}

// Reads the stride and the padding, which only a strided layer has.
static bool read_steps(const json_t *object, const char *where, struct vx_sparse_layer *layer, struct error *error) {
  static const char *const strided[] = {"stride", "padding"};
  for (int i = 0; layer->submanifold && i < 2; i++)
    if (json_object_get(object, strided[i]))
      return error_set(error, MODEL "%s%s is given; a submanifold layer has none", where, strided[i]);
  return layer->submanifold || (read_axes(object, where, "stride", 1, 2, layer->stride, error) &&
                                read_axes(object, where, "padding", 0, 1, layer->padding, error));
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

// No two layers have the same name, since their tensors are NAME.weight and NAME.bias.
static bool read_name(const json_t *object, const char *where, struct backbone *backbone, struct error *error) {
  int32_t number = backbone->layers.num_layers;
  const char *name = backbone->names[number];
  if (!part_read_text(object, where, "name", backbone->names[number], BACKBONE_NAME_SIZE, error)) return false;
  for (int32_t i = 0; i < number; i++)
    if (strcmp(name, backbone->names[i]) == 0)
      return error_set(error, MODEL "%sname is '%s', which is also the name of layers[%d]", where, name, (int)i);
  return true;
}

static bool read_width(const json_t *object, const char *where, int64_t *width, struct error *error) {
  const json_t *value = json_object_get(object, "out");
  *width = json_integer_value(value);
  return (json_is_integer(value) && *width >= VX_SPARSE_WIDTH_STEP && *width <= VX_MAX_SPARSE_WIDTH &&
          *width % VX_SPARSE_WIDTH_STEP == 0) ||
         error_set(error, MODEL "%sout is not a whole number from %d to %d in steps of %d", where, VX_SPARSE_WIDTH_STEP,
                   VX_MAX_SPARSE_WIDTH, VX_SPARSE_WIDTH_STEP);
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
  if (!part_check_members(whole, object, known, error) || !read_name(object, where, backbone, error) ||
      !part_read_number(object, where, "in", 1, VX_MAX_SPARSE_WIDTH, &inputs, error) ||
      !read_width(object, where, &width, error) || !read_kind(object, where, layer, error) ||
      !read_axes(object, where, "kernel", 1, VX_MAX_SPARSE_KERNEL, layer->kernel, error) ||
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

// Along z the backbone's grid has one cell more than the voxels' grid, as in the projects that the models come from.
static bool check_grid(const struct backbone *backbone, const int32_t cells[3], struct error *error) {
  const int32_t *shape = backbone->layers.shape;
  return (shape[0] == cells[2] + 1 && shape[1] == cells[1] && shape[2] == cells[0]) ||
         error_set(error, MODEL "backbone.shape is [%d,%d,%d]; with these voxels it must be [%d,%d,%d]", (int)shape[0],
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
         read_axes(object, "backbone.", "shape", 1, VX_MAX_SPARSE_SIDE, backbone->layers.shape, error) &&
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

static bool is_weight_of(const char *layer, const char *tensor) {
  size_t length = strlen(layer);
  return strncmp(tensor, layer, length) == 0 &&
         (strcmp(tensor + length, ".weight") == 0 || strcmp(tensor + length, ".bias") == 0);
}

// Refuses a tensor that no layer uses.
static bool check_tensors(const struct backbone *backbone, const struct tensor_file *tensors, struct error *error) {
  const char *name;
  json_t *entry;
  json_object_foreach(tensors->header.root, name, entry) {
    int32_t layer = 0;
    while (layer < backbone->layers.num_layers && !is_weight_of(backbone->names[layer], name)) layer++;
    if (layer == backbone->layers.num_layers && strcmp(name, "__metadata__") != 0)
      return error_set(error, "it has a tensor %.80s, which no layer uses", name);
  }
  return true;
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
  return backbone->layers.num_layers == 0 || check_tensors(backbone, tensors, error);
}

void backbone_release(struct backbone *backbone) {
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
