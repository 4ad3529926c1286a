// See detector_files.h.
#include "api/detector_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/base/file.h"
#include "api/detector_parts.h"
#include "api/ops/boxes.h"
#include "api/ops/overlay.h"
#include "api/wire/model.h"

enum { MAX_JSON = 65535, MAX_WEIGHTS = 64 << 20, FORMAT = 1 };  // bytes of the files; the format's version

// ---- members --------------------------------------------------------------------------------------------------------

static bool read_object(const json_t *root, const char *name, json_t **object, struct error *error) {
  *object = json_object_get(root, name);
  return json_is_object(*object) || error_set(error, MODEL "%s is not an object", name);
}

// ---- model.json -----------------------------------------------------------------------------------------------------

static bool read_class_names(struct detector_files *files, const json_t *root, struct error *error) {
  const json_t *names = json_object_get(root, "class_names");
  struct text text = text_over(files->class_names, sizeof files->class_names);
  size_t i;
  const json_t *name;
  json_array_foreach(names, i, name) {
    if (!json_is_string(name)) return error_set(error, MODEL "class_names[%zu] is not a string", i);
    if (strchr(json_string_value(name), ',')) return error_set(error, MODEL "class_names[%zu] has a comma", i);
    text_put(&text, i ? "," : "");
    text_put(&text, json_string_value(name));
  }
  return (json_is_array(names) && text.length > 0 && text_complete(&text)) ||
         error_set(error, MODEL "class_names is not a list of names of up to %zu bytes in all",
                   sizeof files->class_names - 1);
}

bool detector_fits_paths(const char *text) {
  static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  return text[strspn(text, allowed)] == '\0';
}

static bool read_version(struct detector_files *files, const json_t *root, struct error *error) {
  const json_t *value = json_object_get(root, "version");
  const char *text = value ? json_string_value(value) : MODEL_VERSION;
  size_t length = value ? json_string_length(value) : strlen(text);
  if (json_is_integer(value) && json_integer_value(value) >= 0)
    snprintf(files->version, sizeof files->version, "%lld", (long long)json_integer_value(value));
  else if (text && length > 0 && length < sizeof files->version && strlen(text) == length && detector_fits_paths(text))
    snprintf(files->version, sizeof files->version, "%s", text);
  else
    return error_set(error,
                     MODEL "version is neither a whole number nor a string of 1 to %d letters, digits, dots, _ and -",
                     DETECTOR_VERSION_SIZE - 1);
  return true;
}

// The member `features`, such as "pillar10", counts the columns of a point and the inputs that kernels/encode.h adds.
static bool read_encoder_object(struct detector_files *files, json_t *encoder, struct error *error) {
  static const char *const known[] = {"file", "features", "layers", "width", NULL};
  int64_t layers = 1, width;
  char features[32], expected[32];
  snprintf(expected, sizeof expected, "pillar%d", (int)files->voxelize->num_features + VX_PILLAR_EXTRA);
  if (!part_check_members("encoder", encoder, known, error) ||
      !part_read_file_name(encoder, "encoder.", files->weights_file, sizeof files->weights_file, error) ||
      !part_read_text(encoder, "encoder.", "features", features, sizeof features, error))
    return false;
  if (strcmp(features, expected) != 0)
    return error_set(error, MODEL "encoder.features is '%s'; with voxelize.num_features = %d it must be '%s'", features,
                     (int)files->voxelize->num_features, expected);
  bool given = json_object_get(encoder, "layers");
  if ((given && !part_read_number(encoder, "encoder.", "layers", 1, VX_MAX_ENCODER_LAYERS, &layers, error)) ||
      !part_read_number(encoder, "encoder.", "width", 1, PART_MAX_WIDTH, &width, error))
    return false;
  files->layers = (int32_t)layers;
  files->width = (int32_t)width;
  return true;
}

static bool read_outputs(struct detector_files *files, json_t *outputs, struct error *error) {
  const struct vx_operation *head = &vx_operations[files->decode->job.op];
  const char *name;
  json_t *value;
  json_object_foreach(outputs, name, value) {
    int number = input_find(head, name);
    if (number < 0)
      return error_set(error, MODEL "network.outputs has '%.80s', which is not an input of %s", name, head->name);
    if (!part_read_text(outputs, "network.outputs.", name, files->outputs[number], VX_NETWORK_NAME_SIZE, error))
      return false;
  }
  for (int i = 0; i < VX_MAX_INPUTS && head->inputs[i].name; i++)
    if (!files->outputs[i][0] && !head->inputs[i].optional)
      return error_set(error, MODEL "network.outputs has no %s", head->inputs[i].name);
  return true;
}

static bool read_network_object(struct detector_files *files, json_t *network, struct error *error) {
  static const char *const known[] = {"file", "input", "outputs", "layout", NULL};
  char layout[16];
  json_t *outputs = json_object_get(network, "outputs");
  if (!part_check_members("network", network, known, error) ||
      !part_read_file_name(network, "network.", files->network_file, sizeof files->network_file, error) ||
      !part_read_text(network, "network.", "input", files->input, sizeof files->input, error) ||
      !part_read_text(network, "network.", "layout", layout, sizeof layout, error))
    return false;
  files->channels_first = strcmp(layout, "nchw") == 0;
  if (!files->channels_first && strcmp(layout, "nhwc") != 0)
    return error_set(error, MODEL "network.layout is '%s'; allowed: nhwc, nchw", layout);
  if (!json_is_object(outputs)) return error_set(error, MODEL "network.outputs is not an object");
  return read_outputs(files, outputs, error);
}

static bool read_voxelize(struct detector_files *files, json_t *voxelize, struct error *error) {
  struct job_request *request = files->voxelize = job_request_new(VX_VOXELIZE);
  if (!request) return error_set(error, "out of memory");
  if (!settings_read(request, voxelize, "a model", error) || !job_request_finish(request, error))
    return error_prefix(error, MODEL "voxelize: ");
  if (request->job.params.voxelize.coordinates == VX_CYLINDER)
    return error_set(error, MODEL "voxelize: coordinates is cylinder; a model takes voxels in x, y and z");
  return !request->job.params.voxelize.sampling.enabled ||
         error_set(error, MODEL "voxelize: fps is given; a model does not sample");
}

static bool read_decode(struct detector_files *files, json_t *decode, struct error *error) {
  const json_t *value = json_object_get(decode, "head");
  const char *head = value ? json_string_value(value) : "anchor", *names = files->class_names;
  if (!head) return error_set(error, MODEL "decode.head is not a string; allowed: anchor, center");
  enum vx_op op = operation_with_head(head, strlen(head));
  if (op == VX_OPS) return error_set(error, MODEL "decode.head is '%.40s'; allowed: anchor, center", head);
  struct job_request *request = files->decode = job_request_new(op);
  if (!request) return error_set(error, "out of memory");
  if (!settings_read(request, decode, "a model", error)) return error_prefix(error, MODEL "decode: ");
  return (job_request_set(request, "class_names", strlen("class_names"), names, strlen(names), error) &&
          job_request_finish(request, error)) ||
         error_prefix(error, MODEL "decode: ");
}

// `detect` may have only the parameters of tracks: `voxelize` and `decode` have the others.
static bool read_detect(struct detector_files *files, const json_t *root, struct error *error) {
  static const char *const known[] = {"track_max_distance", "track_max_age", NULL};
  json_t *detect = json_object_get(root, "detect");
  if (detect && !(read_object(root, "detect", &detect, error) && part_check_members("detect", detect, known, error)))
    return false;
  struct job_request *request = job_request_new(VX_DETECT);
  if (!request) return error_set(error, "out of memory");
  request->job.params.detect.tracks = VX_DEFAULT_TRACK_TERMS;
  bool good = !detect || settings_read(request, detect, "a model", error);
  files->tracks = request->job.params.detect.tracks;
  job_request_release(request);
  return (good && track_terms_check(&files->tracks, files->class_names, error)) ||
         error_prefix(error, MODEL "detect: ");
}

static bool read_backbone(struct detector_files *files, json_t *backbone, struct error *error) {
  const struct vx_voxelize *voxelize = &files->voxelize->job.params.voxelize;
  struct vx_grid grid;
  if (voxelize->feature_dtype != VX_FLOAT32)
    return error_set(error, MODEL "voxelize.feature_dtype is %s; a backbone takes float32",
                     vx_float_words[voxelize->feature_dtype]);
  if (vx_grid_of(voxelize, 1, &grid, error) != VX_OK) return error_prefix(error, MODEL "voxelize: ");
  return part_read_file_name(backbone, "backbone.", files->weights_file, sizeof files->weights_file, error) &&
         backbone_read_json(&files->backbone, backbone, grid.cells, files->voxelize->num_features, error);
}

static bool read_features(struct detector_files *files, json_t *root, struct error *error) {
  json_t *encoder, *backbone = json_object_get(root, "backbone");
  if (!backbone) return read_object(root, "encoder", &encoder, error) && read_encoder_object(files, encoder, error);
  if (json_object_get(root, "encoder"))
    return error_set(error, MODEL "it has an encoder and a backbone; allowed: only one of the two");
  return read_object(root, "backbone", &backbone, error) && read_backbone(files, backbone, error);
}

static bool read_root(struct detector_files *files, json_t *root, struct error *error) {
  static const char *const known[] = {"format",   "description", "version", "class_names", "voxelize", "encoder",
                                      "backbone", "network",     "decode",  "detect",      NULL};
  json_t *voxelize, *network, *decode;
  const json_t *format = json_object_get(root, "format");
  if (!json_is_object(root)) return error_set(error, MODEL "it is not an object");
  if (!json_is_integer(format) || json_integer_value(format) != FORMAT)
    return error_set(error, MODEL "format is not %d, the format that this version reads", FORMAT);
  return part_check_members("it", root, known, error) &&
         part_read_text(root, "", "description", files->description, sizeof files->description, error) &&
         read_version(files, root, error) && read_class_names(files, root, error) &&
         read_object(root, "voxelize", &voxelize, error) && read_object(root, "network", &network, error) &&
         read_object(root, "decode", &decode, error) && read_voxelize(files, voxelize, error) &&
         read_features(files, root, error) && read_decode(files, decode, error) && read_detect(files, root, error) &&
         read_network_object(files, network, error);
}

static bool read_bytes(const struct detector_files *files, const char *name, size_t most, struct file *file,
                       struct error *error) {
  char path[sizeof files->folder + sizeof files->weights_file];
  snprintf(path, sizeof path, "%s/%s", files->folder, name);
  return file_read("model", path, most, file, error);
}

bool detector_read_json(struct detector_files *files, struct error *error) {
  struct file file;
  struct json_document document;
  json_error_t where;
  if (!read_bytes(files, "model.json", MAX_JSON, &file, error)) return false;
  bool opened = json_open(&document, file.bytes, file.size, &where);
  file_release(&file);
  if (!opened) return error_set(error, MODEL "line %d: %s", where.line, where.text);
  bool good = read_root(files, document.root, error);
  json_close(&document);
  return good;
}

// ---- the encoder ----------------------------------------------------------------------------------------------------

enum { TENSOR_NAME_SIZE = 24 };

// The tensors of the layers are named weight and bias, weight_1 and bias_1, and so on.
static void name_tensors(int32_t number, char weight[TENSOR_NAME_SIZE], char bias[TENSOR_NAME_SIZE]) {
  char suffix[16] = "";
  if (number) snprintf(suffix, sizeof suffix, "_%d", (int)number);
  snprintf(weight, TENSOR_NAME_SIZE, "weight%s", suffix);
  snprintf(bias, TENSOR_NAME_SIZE, "bias%s", suffix);
}

// After the first layer, a row has the outputs of the layer before and their maxima (kernels/encode.h).
static bool read_layer(struct detector_files *files, const struct tensor_file *tensors, int32_t number,
                       struct error *error) {
  struct vx_encoder_layer *layer = &files->encoder.layers[number];
  struct vx_input weight = {.rank = 0}, bias;
  char names[2][TENSOR_NAME_SIZE];
  name_tensors(number, names[0], names[1]);
  layer->inputs = number ? 2 * layer[-1].width : files->voxelize->num_features + VX_PILLAR_EXTRA;
  if (!part_find_tensor(tensors, names[0], (int64_t[]){layer->inputs, -1}, 2, &weight, error)) return false;
  layer->width = (int32_t)weight.dims[1];
  if (number == files->layers - 1 && layer->width != files->width)
    return error_set(error, "tensor %s has %d columns; encoder.width is %d", names[0], (int)layer->width,
                     (int)files->width);
  if (!part_find_tensor(tensors, names[1], (int64_t[]){layer->width}, 1, &bias, error)) return false;
  layer->weight = part_copy_values(&weight, names[0], error);
  files->encoder.num_layers = number + 1;
  if (!layer->weight) return false;
  layer->bias = part_copy_values(&bias, names[1], error);
  return layer->bias;
}

static bool is_of_encoder(const struct detector_files *files, const char *tensor) {
  char weight[TENSOR_NAME_SIZE], bias[TENSOR_NAME_SIZE];
  bool is = false;
  for (int32_t i = 0; i < files->layers && !is; i++) {
    name_tensors(i, weight, bias);
    is = strcmp(tensor, weight) == 0 || strcmp(tensor, bias) == 0;
  }
  return is;
}

// Refuses a tensor that no layer uses.
static bool check_tensors(const struct detector_files *files, const struct tensor_file *tensors, struct error *error) {
  const char *name;
  json_t *entry;
  json_object_foreach(tensors->header.root, name, entry) {
    if (strcmp(name, "__metadata__") != 0 && !is_of_encoder(files, name))
      return error_set(error, "it has a tensor %.80s, which no layer uses", name);
  }
  return true;
}

static bool read_tensors(struct detector_files *files, struct file *file, struct error *error) {
  struct tensor_file tensors;
  if (!tensor_file_open("the file", file->bytes, file->size, &tensors, error)) return false;
  bool good = backbone_read_weights(&files->backbone, &tensors, error);
  for (int32_t i = 0; good && i < files->layers; i++) good = read_layer(files, &tensors, i, error);
  good = good && (files->layers == 0 || check_tensors(files, &tensors, error));
  tensor_file_close(&tensors);
  return good;
}

bool detector_read_weights(struct detector_files *files, struct error *error) {
  struct file file;
  if (!read_bytes(files, files->weights_file, MAX_WEIGHTS, &file, error)) return false;
  bool good = read_tensors(files, &file, error);
  file_release(&file);
  return good || error_prefix(error, "%s: ", files->weights_file);
}

void detector_files_release(struct detector_files *files) {
  for (int32_t i = 0; i < files->encoder.num_layers; i++) {
    free((void *)(uintptr_t)files->encoder.layers[i].weight);
    free((void *)(uintptr_t)files->encoder.layers[i].bias);
  }
  backbone_release(&files->backbone);
  job_request_release(files->voxelize);
  job_request_release(files->decode);
}
