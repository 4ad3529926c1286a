// See detector_files.h.
#include "api/detector_files.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/base/file.h"
#include "api/base/json.h"
#include "api/settings.h"
#include "api/wire/tensor_file.h"

enum { MAX_JSON = 65535, MAX_ENCODER = 64 << 20, FORMAT = 1 };  // bytes of the files; the format's version

#define FAULT(...) error_set(fault, DETECTOR_FAULT_SIZE, __VA_ARGS__)
#define MODEL "model.json: "

// ---- members --------------------------------------------------------------------------------------------------------

// Members whose names begin with # are comments.
static bool check_members(const char *where, json_t *object, const char *const *known, char *fault) {
  const char *name;
  json_t *value;
  json_object_foreach(object, name, value) {
    const char *const *each = known;
    while (*each && strcmp(*each, name) != 0) each++;
    if (!*each && name[0] != '#') return FAULT(MODEL "%s has a member '%.80s' that has no meaning there", where, name);
  }
  return true;
}

static bool read_text(const json_t *object, const char *where, const char *name, char *out, size_t size, char *fault) {
  const json_t *value = json_object_get(object, name);
  const char *text = json_string_value(value);
  size_t length = json_string_length(value);
  if (!text || length == 0 || length >= size || strlen(text) != length)
    return FAULT(MODEL "%s%s is no string of 1 to %zu bytes", where, name, size - 1);
  memcpy(out, text, length + 1);
  return true;
}

// A file of the folder, not of another one.
static bool read_file_name(const json_t *object, const char *where, char *out, size_t size, char *fault) {
  return read_text(object, where, "file", out, size, fault) &&
         ((!strchr(out, '/') && out[0] != '.') ||
          FAULT(MODEL "%sfile is '%s'; allowed: the name of a file beside it", where, out));
}

static bool read_object(const json_t *root, const char *name, json_t **object, char *fault) {
  *object = json_object_get(root, name);
  return json_is_object(*object) || FAULT(MODEL "%s is no object", name);
}

// ---- model.json -----------------------------------------------------------------------------------------------------

static bool read_class_names(struct detector_files *files, const json_t *root, char *fault) {
  const json_t *names = json_object_get(root, "class_names");
  struct text text = text_over(files->class_names, sizeof files->class_names);
  size_t i;
  const json_t *name;
  json_array_foreach(names, i, name) {
    if (!json_is_string(name)) return FAULT(MODEL "class_names[%zu] is no string", i);
    text_put(&text, i ? "," : "");
    text_put(&text, json_string_value(name));
  }
  return (json_is_array(names) && text.length > 0 && text_complete(&text)) ||
         FAULT(MODEL "class_names is no list of names of up to %zu bytes in all", sizeof files->class_names - 1);
}

// "pillar10": the columns of a point, and what kernels/encode.h adds.
static bool read_encoder_object(struct detector_files *files, json_t *encoder, char *fault) {
  static const char *const known[] = {"file", "features", "width", NULL};
  char features[32], expected[32];
  const json_t *width = json_object_get(encoder, "width");
  files->width = (int32_t)json_integer_value(width);
  files->channels = files->voxelize->num_features + VX_PILLAR_EXTRA;
  snprintf(expected, sizeof expected, "pillar%d", (int)files->channels);
  if (!check_members("encoder", encoder, known, fault) ||
      !read_file_name(encoder, "encoder.", files->encoder_file, sizeof files->encoder_file, fault) ||
      !read_text(encoder, "encoder.", "features", features, sizeof features, fault))
    return false;
  if (strcmp(features, expected) != 0)
    return FAULT(MODEL "encoder.features is '%s'; with voxelize.num_features = %d it is '%s'", features,
                 (int)files->voxelize->num_features, expected);
  json_int_t given = json_integer_value(width);
  return (json_is_integer(width) && given >= 1 && given <= DETECTOR_MAX_WIDTH) ||
         FAULT(MODEL "encoder.width is no number from 1 to %d", DETECTOR_MAX_WIDTH);
}

// Each input of the decoder comes from an output of the network.
static bool read_outputs(struct detector_files *files, json_t *outputs, char *fault) {
  const struct vx_operation *head = vx_operation_of(files->decode->job.op);
  const char *name;
  json_t *value;
  json_object_foreach(outputs, name, value) {
    int number = input_find(head, name);
    if (number < 0) return FAULT(MODEL "network.outputs has '%.80s', which is no input of %s", name, head->name);
    if (!read_text(outputs, "network.outputs.", name, files->outputs[number], VX_NETWORK_NAME_SIZE, fault))
      return false;
  }
  for (int i = 0; i < VX_MAX_INPUTS && head->inputs[i].name; i++)
    if (!files->outputs[i][0] && !head->inputs[i].optional)
      return FAULT(MODEL "network.outputs has no %s", head->inputs[i].name);
  return true;
}

static bool read_network_object(struct detector_files *files, json_t *network, char *fault) {
  static const char *const known[] = {"file", "input", "outputs", "layout", NULL};
  char layout[16];
  json_t *outputs = json_object_get(network, "outputs");
  if (!check_members("network", network, known, fault) ||
      !read_file_name(network, "network.", files->network_file, sizeof files->network_file, fault) ||
      !read_text(network, "network.", "input", files->input, sizeof files->input, fault) ||
      !read_text(network, "network.", "layout", layout, sizeof layout, fault))
    return false;
  files->channels_first = strcmp(layout, "nchw") == 0;
  if (!files->channels_first && strcmp(layout, "nhwc") != 0)
    return FAULT(MODEL "network.layout is '%s'; allowed: nhwc, nchw", layout);
  if (!json_is_object(outputs)) return FAULT(MODEL "network.outputs is no object");
  return read_outputs(files, outputs, fault);
}

static struct job_request *new_request(enum vx_op op) {
  struct job_request *request = malloc(sizeof *request);
  if (request) job_request_init(request, op);
  return request;
}

static bool read_voxelize(struct detector_files *files, json_t *voxelize, char *fault) {
  struct problem problem;
  struct job_request *request = files->voxelize = new_request(VX_VOXELIZE);
  if (!request) return FAULT("out of memory");
  if (!settings_read(request, voxelize, "a model", &problem) || !job_request_finish(request, &problem))
    return FAULT(MODEL "voxelize: %s", problem.detail);
  const struct vx_voxelize *params = &request->job.params.voxelize;
  if (params->sampling.enabled) return FAULT(MODEL "voxelize: fps is given; a model does not sample");
  return params->max_points_per_voxel > 0 ||
         FAULT(MODEL "voxelize: max_points_per_voxel is 0; an encoder needs 1 or more");
}

static bool read_decode(struct detector_files *files, json_t *decode, char *fault) {
  struct problem problem;
  const json_t *value = json_object_get(decode, "head");
  const char *head = value ? json_string_value(value) : "anchor", *names = files->class_names;
  enum vx_op op = operation_with_head(head ? head : "", head ? strlen(head) : 0);
  if (op == VX_OPS) return FAULT(MODEL "decode.head is '%.40s'; allowed: anchor, center", head ? head : "no string");
  struct job_request *request = files->decode = new_request(op);
  if (!request) return FAULT("out of memory");
  if (!settings_read(request, decode, "a model", &problem)) return FAULT(MODEL "decode: %s", problem.detail);
  return (job_request_set(request, "class_names", strlen("class_names"), names, strlen(names), &problem) &&
          job_request_finish(request, &problem)) ||
         FAULT(MODEL "decode: %s", problem.detail);
}

static bool read_root(struct detector_files *files, json_t *root, char *fault) {
  static const char *const known[] = {"format",  "description", "class_names", "voxelize",
                                      "encoder", "network",     "decode",      NULL};
  json_t *voxelize, *encoder, *network, *decode;
  const json_t *format = json_object_get(root, "format");
  if (!json_is_object(root)) return FAULT(MODEL "it is no object");
  if (!json_is_integer(format) || json_integer_value(format) != FORMAT)
    return FAULT(MODEL "format is not %d, the one that this version reads", FORMAT);
  return check_members("it", root, known, fault) &&
         read_text(root, "", "description", files->description, sizeof files->description, fault) &&
         read_class_names(files, root, fault) && read_object(root, "voxelize", &voxelize, fault) &&
         read_object(root, "encoder", &encoder, fault) && read_object(root, "network", &network, fault) &&
         read_object(root, "decode", &decode, fault) && read_voxelize(files, voxelize, fault) &&
         read_encoder_object(files, encoder, fault) && read_decode(files, decode, fault) &&
         read_network_object(files, network, fault);
}

static bool read_bytes(const struct detector_files *files, const char *name, size_t most, struct file *file,
                       char *fault) {
  char path[sizeof files->folder + sizeof files->encoder_file];
  snprintf(path, sizeof path, "%s/%s", files->folder, name);
  return file_read("model", path, most, file, fault, DETECTOR_FAULT_SIZE);
}

bool detector_read_json(struct detector_files *files, char fault[DETECTOR_FAULT_SIZE]) {
  struct file file;
  json_error_t where;
  if (!read_bytes(files, "model.json", MAX_JSON, &file, fault)) return false;
  json_t *root = json_read(file.bytes, file.size, &where);
  file_free(&file);
  if (!root) return FAULT(MODEL "line %d: %s", where.line, where.text);
  bool good = read_root(files, root, fault);
  json_decref(root);
  return good;
}

// ---- the encoder ----------------------------------------------------------------------------------------------------

// The values of a tensor, for free. NULL with a reason.
static float *read_values(const struct tensor_file *file, const struct vx_input_row *row, int64_t rows, int64_t columns,
                          char *fault) {
  struct vx_input input;
  struct problem problem;
  const json_t *entry = json_object_get(file->root, row->name);
  int rank = columns ? 2 : 1;
  size_t count = (size_t)rows * (size_t)(columns ? columns : 1);
  float *values = NULL;
  if (!entry)
    FAULT("it has no tensor %s", row->name);
  else if (!tensor_file_take(file, row, entry, &input, &problem))
    FAULT("%s", problem.detail);
  else if (input.rank != rank || input.dims[0] != rows || (columns && input.dims[1] != columns))
    FAULT("tensor %s has not the shape [%lld%s%.0lld]", row->name, (long long)rows, columns ? ", " : "",
          (long long)columns);
  else if (count == 0 || !(values = malloc(count * sizeof *values)))
    FAULT("out of memory");
  else
    memcpy(values, input.data, count * sizeof *values);  // it may not be aligned
  for (size_t i = 0; values && i < count; i++) {
    if (isfinite(values[i])) continue;
    FAULT("tensor %s has values that are not finite", row->name);
    free(values);
    values = NULL;
  }
  return values;
}

static bool read_weights(struct detector_files *files, struct file *file, char *fault) {
  static const struct vx_input_row weight = {.name = "weight", .dtypes = VX_DTYPE_BIT(VX_FLOAT32)};
  static const struct vx_input_row bias = {.name = "bias", .dtypes = VX_DTYPE_BIT(VX_FLOAT32)};
  struct tensor_file tensors;
  struct problem problem;
  if (!tensor_file_open("the file", file->bytes, file->size, &tensors, &problem)) return FAULT("%s", problem.detail);
  files->weight = read_values(&tensors, &weight, files->channels, files->width, fault);
  if (files->weight) files->bias = read_values(&tensors, &bias, files->width, 0, fault);
  tensor_file_close(&tensors);
  return files->bias;
}

bool detector_read_encoder(struct detector_files *files, char fault[DETECTOR_FAULT_SIZE]) {
  struct file file;
  char reason[DETECTOR_FAULT_SIZE];
  if (!read_bytes(files, files->encoder_file, MAX_ENCODER, &file, fault)) return false;
  bool good = read_weights(files, &file, reason);
  file_free(&file);
  return good || FAULT("%s: %.300s", files->encoder_file, reason);
}

void detector_files_free(struct detector_files *files) {
  free(files->weight);
  free(files->bias);
  free(files->voxelize);
  free(files->decode);
}
