// See detector_files.h.
#include "api/detector_files.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/base/file.h"
#include "api/base/json.h"
#include "api/ops/overlay.h"
#include "api/wire/model.h"
#include "api/wire/tensor_file.h"

enum { MAX_JSON = 65535, MAX_ENCODER = 64 << 20, FORMAT = 1 };  // bytes of the files; the format's version

#define MODEL "model.json: "

// ---- members --------------------------------------------------------------------------------------------------------

// Members whose names begin with # are comments.
static bool check_members(const char *where, json_t *object, const char *const *known, struct error *error) {
  const char *name;
  json_t *value;
  json_object_foreach(object, name, value) {
    const char *const *each = known;
    while (*each && strcmp(*each, name) != 0) each++;
    if (!*each && name[0] != '#')
      return error_set(error, MODEL "%s has a member '%.80s' that has no meaning there", where, name);
  }
  return true;
}

static bool read_text(const json_t *object, const char *where, const char *name, char *out, size_t size,
                      struct error *error) {
  const json_t *value = json_object_get(object, name);
  const char *text = json_string_value(value);
  size_t length = json_string_length(value);
  if (!text || length == 0 || length >= size || strlen(text) != length)
    return error_set(error, MODEL "%s%s is not a string of 1 to %zu bytes", where, name, size - 1);
  memcpy(out, text, length + 1);
  return true;
}

// Reads the name of a file in the model's own folder.
static bool read_file_name(const json_t *object, const char *where, char *out, size_t size, struct error *error) {
  return read_text(object, where, "file", out, size, error) &&
         ((!strchr(out, '/') && out[0] != '.') ||
          error_set(error, MODEL "%sfile is '%s'; allowed: the name of a file beside it", where, out));
}

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

// Reads a number from 1 to `most`. A missing number that is optional is 1.
static bool read_number(const json_t *object, const char *name, bool needed, int32_t most, int32_t *out,
                        struct error *error) {
  const json_t *value = json_object_get(object, name);
  json_int_t given = !value && !needed ? 1 : json_integer_value(value);
  *out = (int32_t)given;
  return ((json_is_integer(value) || (!value && !needed)) && given >= 1 && given <= most) ||
         error_set(error, MODEL "encoder.%s is not a number from 1 to %d", name, (int)most);
}

// Also checks the member `features`, such as "pillar10": its number counts the columns of a point and the inputs that
// kernels/encode.h adds.
static bool read_encoder_object(struct detector_files *files, json_t *encoder, struct error *error) {
  static const char *const known[] = {"file", "features", "layers", "width", NULL};
  char features[32], expected[32];
  snprintf(expected, sizeof expected, "pillar%d", (int)files->voxelize->num_features + VX_PILLAR_EXTRA);
  if (!check_members("encoder", encoder, known, error) ||
      !read_file_name(encoder, "encoder.", files->encoder_file, sizeof files->encoder_file, error) ||
      !read_text(encoder, "encoder.", "features", features, sizeof features, error))
    return false;
  if (strcmp(features, expected) != 0)
    return error_set(error, MODEL "encoder.features is '%s'; with voxelize.num_features = %d it is '%s'", features,
                     (int)files->voxelize->num_features, expected);
  return read_number(encoder, "layers", false, VX_MAX_ENCODER_LAYERS, &files->layers, error) &&
         read_number(encoder, "width", true, DETECTOR_MAX_WIDTH, &files->width, error);
}

// Reads which output of the network each input of the decoder comes from.
static bool read_outputs(struct detector_files *files, json_t *outputs, struct error *error) {
  const struct vx_operation *head = vx_operation_of(files->decode->job.op);
  const char *name;
  json_t *value;
  json_object_foreach(outputs, name, value) {
    int number = input_find(head, name);
    if (number < 0)
      return error_set(error, MODEL "network.outputs has '%.80s', which is not an input of %s", name, head->name);
    if (!read_text(outputs, "network.outputs.", name, files->outputs[number], VX_NETWORK_NAME_SIZE, error))
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
  if (!check_members("network", network, known, error) ||
      !read_file_name(network, "network.", files->network_file, sizeof files->network_file, error) ||
      !read_text(network, "network.", "input", files->input, sizeof files->input, error) ||
      !read_text(network, "network.", "layout", layout, sizeof layout, error))
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
  return !request->job.params.voxelize.sampling.enabled ||
         error_set(error, MODEL "voxelize: fps is given; a model does not sample");
}

static bool read_decode(struct detector_files *files, json_t *decode, struct error *error) {
  const json_t *value = json_object_get(decode, "head");
  const char *head = value ? json_string_value(value) : "anchor", *names = files->class_names;
  enum vx_op op = operation_with_head(head ? head : "", head ? strlen(head) : 0);
  if (op == VX_OPS)
    return error_set(error, MODEL "decode.head is '%.40s'; allowed: anchor, center", head ? head : "no string");
  struct job_request *request = files->decode = job_request_new(op);
  if (!request) return error_set(error, "out of memory");
  if (!settings_read(request, decode, "a model", error)) return error_prefix(error, MODEL "decode: ");
  return (job_request_set(request, "class_names", strlen("class_names"), names, strlen(names), error) &&
          job_request_finish(request, error)) ||
         error_prefix(error, MODEL "decode: ");
}

static bool read_root(struct detector_files *files, json_t *root, struct error *error) {
  static const char *const known[] = {"format",  "description", "version", "class_names", "voxelize",
                                      "encoder", "network",     "decode",  NULL};
  json_t *voxelize, *encoder, *network, *decode;
  const json_t *format = json_object_get(root, "format");
  if (!json_is_object(root)) return error_set(error, MODEL "it is not an object");
  if (!json_is_integer(format) || json_integer_value(format) != FORMAT)
    return error_set(error, MODEL "format is not %d, the format that this version reads", FORMAT);
  return check_members("it", root, known, error) &&
         read_text(root, "", "description", files->description, sizeof files->description, error) &&
         read_version(files, root, error) && read_class_names(files, root, error) &&
         read_object(root, "voxelize", &voxelize, error) && read_object(root, "encoder", &encoder, error) &&
         read_object(root, "network", &network, error) && read_object(root, "decode", &decode, error) &&
         read_voxelize(files, voxelize, error) && read_encoder_object(files, encoder, error) &&
         read_decode(files, decode, error) && read_network_object(files, network, error);
}

static bool read_bytes(const struct detector_files *files, const char *name, size_t most, struct file *file,
                       struct error *error) {
  char path[sizeof files->folder + sizeof files->encoder_file];
  snprintf(path, sizeof path, "%s/%s", files->folder, name);
  return file_read("model", path, most, file, error);
}

bool detector_read_json(struct detector_files *files, struct error *error) {
  struct file file;
  struct json_document document;
  json_error_t where;
  if (!read_bytes(files, "model.json", MAX_JSON, &file, error)) return false;
  bool opened = json_open(&document, file.bytes, file.size, &where);
  file_free(&file);
  if (!opened) return error_set(error, MODEL "line %d: %s", where.line, where.text);
  bool good = read_root(files, document.root, error);
  json_close(&document);
  return good;
}

// ---- the encoder ----------------------------------------------------------------------------------------------------

// Copies the values of a tensor; free them with free. NULL with a reason.
static float *read_values(const struct vx_input *input, size_t count, const char *name, struct error *error) {
  float *values = count == 0 ? NULL : malloc(count * sizeof *values);
  if (!values) {
    error_set(error, "out of memory");
    return NULL;
  }
  memcpy(values, input->data, count * sizeof *values);  // the data may be unaligned
  for (size_t i = 0; i < count; i++) {
    if (isfinite(values[i])) continue;
    error_set(error, "tensor %s has values that are not finite", name);
    free(values);
    return NULL;
  }
  return values;
}

// Finds a tensor with `rank` dimensions, the first of length `first`. The other dimensions are 1 to DETECTOR_MAX_WIDTH.
static bool find_tensor(const struct tensor_file *file, const char *name, int rank, int64_t first,
                        struct vx_input *input, struct error *error) {
  const struct vx_input_row row = {.name = name, .dtypes = VX_DTYPE_BIT(VX_FLOAT32)};
  const json_t *entry = json_object_get(file->header.root, name);
  if (!entry) return error_set(error, "it has no tensor %s", name);
  if (!tensor_file_take(file, &row, entry, input, error)) return false;
  bool fits = input->rank == rank && input->dims[0] == first;
  if (fits && rank == 2) fits = input->dims[1] >= 1 && input->dims[1] <= DETECTOR_MAX_WIDTH;
  return fits || error_set(error, "tensor %s does not have the shape [%lld%s]", name, (long long)first,
                           rank == 2 ? ", width" : "");
}

// The layers are weight and bias, weight_1 and bias_1 and so on. Each later layer has twice as many inputs as the layer
// before it has channels.
static bool read_layer(struct detector_files *files, const struct tensor_file *tensors, int32_t number,
                       struct error *error) {
  struct vx_encoder_layer *layer = &files->encoder.layers[number];
  struct vx_input weight = {.rank = 0}, bias;
  char names[2][24] = {"weight", "bias"};
  if (number) snprintf(names[0], sizeof names[0], "weight_%d", (int)number);
  if (number) snprintf(names[1], sizeof names[1], "bias_%d", (int)number);
  layer->inputs = number ? 2 * layer[-1].width : files->voxelize->num_features + VX_PILLAR_EXTRA;
  if (!find_tensor(tensors, names[0], 2, layer->inputs, &weight, error)) return false;
  layer->width = (int32_t)weight.dims[1];
  if (number == files->layers - 1 && layer->width != files->width)
    return error_set(error, "tensor %s has %d columns; encoder.width is %d", names[0], (int)layer->width,
                     (int)files->width);
  if (!find_tensor(tensors, names[1], 1, layer->width, &bias, error)) return false;
  layer->weight = read_values(&weight, (size_t)layer->inputs * (size_t)layer->width, names[0], error);
  files->encoder.num_layers = number + 1;
  if (!layer->weight) return false;
  layer->bias = read_values(&bias, (size_t)layer->width, names[1], error);
  return layer->bias;
}

static bool read_weights(struct detector_files *files, struct file *file, struct error *error) {
  struct tensor_file tensors;
  bool good = true;
  if (!tensor_file_open("the file", file->bytes, file->size, &tensors, error)) return false;
  for (int32_t i = 0; good && i < files->layers; i++) good = read_layer(files, &tensors, i, error);
  tensor_file_close(&tensors);
  return good;
}

bool detector_read_encoder(struct detector_files *files, struct error *error) {
  struct file file;
  if (!read_bytes(files, files->encoder_file, MAX_ENCODER, &file, error)) return false;
  bool good = read_weights(files, &file, error);
  file_free(&file);
  return good || error_prefix(error, "%s: ", files->encoder_file);
}

void detector_files_free(struct detector_files *files) {
  for (int32_t i = 0; i < files->encoder.num_layers; i++) {
    free((void *)(uintptr_t)files->encoder.layers[i].weight);
    free((void *)(uintptr_t)files->encoder.layers[i].bias);
  }
  job_request_free(files->voxelize);
  job_request_free(files->decode);
}
