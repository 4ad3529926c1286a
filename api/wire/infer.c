// Reads the bodies of inference requests; see infer.h.
//
// The parameters, and what else the JSON says of the job, become a query. So they are checked as a query is.
#include "api/wire/infer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "api/base/json.h"
#include "api/ops/overlay.h"
#include "api/wire/region.h"
#include "kernels/ops.h"

// A body that is read, and what the query's values point to.
struct reading {
  struct infer_body *body;
  struct infer *infer;
  const struct infer_memory *shared;
  struct problem *problem;
  const char *bytes;  // behind the JSON; what inputs have not taken yet
  size_t size;
  enum vx_dtype dtype;  // of points
  bool has_points, has_columns, has_outputs;
  bool binary_output;  // for outputs that do not say
  struct query query;
  struct text texts;
  char memory[65536];  // a list of point_counts of most clouds fits
};

__attribute__((format(printf, 2, 3))) static bool refuse(struct reading *reading, const char *format, ...) {
  char detail[sizeof reading->problem->detail];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(detail, sizeof detail, format, arguments);
  va_end(arguments);
  return problem_set(reading->problem, PROBLEM_BAD_BODY, NULL, "%s", detail);
}

// ---- the query ------------------------------------------------------------------------------------------------------

static bool add_item(struct reading *reading, const char *name, const char *value, size_t length) {
  struct query *query = &reading->query;
  if (query->count == QUERY_MAX_ITEMS) return refuse(reading, "there are more than %d parameters", QUERY_MAX_ITEMS);
  query->items[query->count++] = (struct query_item){name, value, strlen(name), length};
  return true;
}

// Adds an item whose value was written to `texts` from `begin` on.
static bool add_text(struct reading *reading, const char *name, size_t begin) {
  size_t length = reading->texts.length - begin;
  text_append(&reading->texts, "", 1);  // no value runs into the next
  if (!text_complete(&reading->texts)) return refuse(reading, "%s is too long", name);
  return add_item(reading, name, reading->texts.data + begin, length);
}

static bool write_value(const json_t *value, struct text *out) {
  if (!value) return false;
  switch (json_typeof(value)) {
    case JSON_STRING: text_append(out, json_string_value(value), json_string_length(value)); return true;
    case JSON_INTEGER: text_printf(out, "%lld", (long long)json_integer_value(value)); return true;
    case JSON_REAL: text_printf(out, "%.17g", json_real_value(value)); return true;
    case JSON_TRUE: text_put(out, "yes"); return true;
    case JSON_FALSE: text_put(out, "no"); return true;
    default: return false;
  }
}

// A list is written with commas between, as in a query.
static bool add_parameter(struct reading *reading, const char *name, const json_t *value) {
  struct text *out = &reading->texts;
  size_t begin = out->length, count = json_is_array(value) ? json_array_size(value) : 1;
  for (size_t i = 0; i < count; i++) {
    if (i) text_put(out, ",");
    if (!write_value(json_is_array(value) ? json_array_get(value, i) : value, out))
      return refuse(reading, "parameter %.64s is no string, number or boolean, nor a list of them", name);
  }
  return add_text(reading, name, begin);
}

// ---- the request's parameters ---------------------------------------------------------------------------------------

static bool take_binary_output(struct reading *reading, const json_t *value) {
  reading->binary_output = json_is_true(value);
  return json_is_boolean(value) || refuse(reading, "binary_data_output is no boolean");
}

// Microseconds here, milliseconds in a query; 0 is none.
static bool take_timeout(struct reading *reading, const json_t *value) {
  json_int_t us = json_integer_value(value);
  if (!json_is_integer(value) || us < 0) return refuse(reading, "timeout is no number of microseconds");
  size_t begin = reading->texts.length;
  text_printf(&reading->texts, "%lld", (long long)(us / 1000 + (us % 1000 > 0)));
  return add_text(reading, "timeout_ms", begin);
}

// Requests here have no order and no rank among each other, and no state is kept between them.
static bool take_nothing(struct reading *reading, const json_t *value) {
  (void)reading, (void)value;
  return true;
}

static bool refuse_preset(struct reading *reading, const json_t *value) {
  (void)value;
  return refuse(reading, "preset is a parameter; name the preset as the model instead");
}

static bool refuse_format(struct reading *reading, const json_t *value) {
  (void)value;
  return refuse(reading, "format and dtype are given by the input points, not by parameters");
}

static bool refuse_region(struct reading *reading, const json_t *value) {
  (void)value;
  return refuse(reading, "regions are given by inputs and outputs (shared_memory_region), not by parameters");
}

// Parameters of a meaning of their own; all others are those of the operation.
static const struct {
  const char *name;
  bool (*take)(struct reading *reading, const json_t *value);
} reserved[] = {
    {"binary_data_output", take_binary_output},
    {"timeout", take_timeout},
    {"priority", take_nothing},
    {"headers", take_nothing},
    {"sequence_id", take_nothing},
    {"sequence_start", take_nothing},
    {"sequence_end", take_nothing},
    {"preset", refuse_preset},
    {"format", refuse_format},
    {"dtype", refuse_format},
    {"points_region", refuse_region},
    {"output_region", refuse_region},
};

static bool take_parameter(struct reading *reading, const char *name, const json_t *value) {
  for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++)
    if (strcmp(reserved[i].name, name) == 0) return reserved[i].take(reading, value);
  if (strcmp(name, "num_features") == 0 || strcmp(name, "fields") == 0) reading->has_columns = true;
  return add_parameter(reading, name, value);
}

static bool take_parameters(struct reading *reading, json_t *parameters) {
  const char *name;
  json_t *value;
  if (!parameters) return true;
  if (!json_is_object(parameters)) return refuse(reading, "parameters is no object");
  json_object_foreach(parameters, name, value) if (!take_parameter(reading, name, value)) return false;
  return true;
}

// ---- inputs ---------------------------------------------------------------------------------------------------------

struct input {
  const char *name, *datatype;
  int64_t dims[2];
  size_t rank;
  const json_t *data;  // NULL: it is no JSON
  const char *bytes;   // NULL: `region` has it
  size_t size;
  struct region_ref region;
};

static const char *string_of(const json_t *object, const char *name) {
  const char *value = json_string_value(json_object_get(object, name));
  return value ? value : "";
}

static bool read_shape(struct reading *reading, const json_t *shape, struct input *input) {
  input->rank = json_array_size(shape);
  if (input->rank < 1 || input->rank > 2) return refuse(reading, "input %.64s has no shape of one or two", input->name);
  for (size_t d = 0; d < input->rank; d++) {
    const json_t *dim = json_array_get(shape, d);
    input->dims[d] = json_integer_value(dim);
    if (!json_is_integer(dim) || input->dims[d] < 0 || input->dims[d] > VX_MAX_POINTS)
      return refuse(reading, "input %.64s: dimension %zu of its shape is no number from 0 to %lld", input->name, d,
                    (long long)VX_MAX_POINTS);
  }
  return true;
}

// Bytes are taken in the order of the inputs.
static bool take_bytes(struct reading *reading, const json_t *size, struct input *input) {
  json_int_t bytes = json_integer_value(size);
  if (!json_is_integer(size) || bytes < 0)
    return refuse(reading, "input %.64s: binary_data_size is no number of bytes", input->name);
  if ((uint64_t)bytes > reading->size)
    return refuse(reading, "input %.64s: binary_data_size is %lld, but only %zu bytes are left", input->name,
                  (long long)bytes, reading->size);
  input->bytes = reading->bytes;
  input->size = (size_t)bytes;
  reading->bytes += bytes;
  reading->size -= (size_t)bytes;
  return true;
}

static bool read_input(struct reading *reading, const json_t *object, struct input *input) {
  const json_t *parameters = json_object_get(object, "parameters");
  const json_t *size = json_object_get(parameters, "binary_data_size");
  const json_t *data = json_object_get(object, "data");
  *input = (struct input){.name = string_of(object, "name"),
                          .datatype = string_of(object, "datatype"),
                          .data = json_is_null(data) ? NULL : data};  // KServe's client writes null for no bytes
  const json_t *region = json_object_get(parameters, "shared_memory_region");
  if (!read_shape(reading, json_object_get(object, "shape"), input)) return false;
  if ((input->data != NULL) + (size != NULL) + (region != NULL) != 1)
    return refuse(reading, "input %.64s: allowed: one of data, binary_data_size and shared_memory_region", input->name);
  if (region && !region_ref_read(parameters, &input->region, reading->problem)) return false;
  if (region) input->size = (size_t)input->region.bytes;
  return !size || take_bytes(reading, size, input);
}

static bool take_points(struct reading *reading, const struct input *input) {
  struct infer_body *body = reading->body;
  bool half = strcmp(input->datatype, "FP16") == 0;
  if (reading->has_points) return refuse(reading, "there are two inputs points");
  if (!half && strcmp(input->datatype, "FP32") != 0)
    return refuse(reading, "points has the datatype %.16s; allowed: FP32, or FP16 as binary data", input->datatype);
  if (half && input->data) return refuse(reading, "points has the datatype FP16; allowed: as binary data alone");
  if (input->rank != 2 || input->dims[1] < VX_MIN_FEATURES || input->dims[1] > VX_MAX_FEATURES)
    return refuse(reading, "points has not the shape [N, C] with C from %d to %d", VX_MIN_FEATURES, VX_MAX_FEATURES);
  reading->has_points = true;
  reading->dtype = half ? VX_FLOAT16 : VX_FLOAT32;
  body->rows = input->dims[0];
  body->columns = input->dims[1];
  body->data = input->data;
  body->points = input->bytes;
  body->region = input->region;
  size_t bytes = (size_t)(body->rows * body->columns) * vx_dtype_size(reading->dtype);
  return input->data || input->size == bytes ||
         refuse(reading, "points has %zu bytes; its shape has %zu", input->size, bytes);
}

static bool take_point_counts(struct reading *reading, const struct input *input) {
  struct text *out = &reading->texts;
  int32_t shared[VX_MAX_CLOUDS];
  const char *bytes = input->bytes;
  size_t begin = out->length, count = (size_t)input->dims[0];
  if (strcmp(input->datatype, "INT32") != 0 || input->rank != 1 || count > VX_MAX_CLOUDS)
    return refuse(reading, "point_counts is not INT32 of shape [B] with B up to %d", VX_MAX_CLOUDS);
  if (input->data ? json_array_size(input->data) != count : input->size != count * sizeof(int32_t))
    return refuse(reading, "point_counts has not as many values as its shape says");
  if (input->region.name[0]) {
    const struct infer_memory *memory = reading->shared;
    if (!memory->read(memory->cls, &input->region, (char *)shared, reading->problem)) return false;
    bytes = (const char *)shared;
  }
  for (size_t i = 0; i < count; i++) {
    const json_t *given = json_array_get(input->data, i);
    int32_t value = 0;
    if (input->data && !json_is_integer(given)) return refuse(reading, "point_counts has a value that is no integer");
    if (bytes) memcpy(&value, bytes + i * sizeof value, sizeof value);
    text_printf(out, "%s%lld", i ? "," : "", given ? (long long)json_integer_value(given) : (long long)value);
  }
  return add_text(reading, "point_counts", begin);
}

static bool take_inputs(struct reading *reading, const json_t *inputs) {
  struct input input;
  if (!json_is_array(inputs)) return refuse(reading, "there is no list of inputs");
  for (size_t i = 0; i < json_array_size(inputs); i++) {
    if (!read_input(reading, json_array_get(inputs, i), &input)) return false;
    bool points = strcmp(input.name, "points") == 0;
    if (!points && strcmp(input.name, "point_counts") != 0)
      return refuse(reading, "there is no input '%.64s'; allowed: points, point_counts", input.name);
    if (!(points ? take_points : take_point_counts)(reading, &input)) return false;
  }
  if (!reading->has_points) return refuse(reading, "there is no input points");
  return reading->size == 0 || refuse(reading, "%zu bytes are left behind those of the inputs", reading->size);
}

// ---- outputs --------------------------------------------------------------------------------------------------------

static bool take_output(struct reading *reading, const json_t *object) {
  const char *name = string_of(object, "name");
  const json_t *parameters = json_object_get(object, "parameters"),
               *binary = json_object_get(parameters, "binary_data");
  struct infer *infer = reading->infer;
  bool shared = json_object_get(parameters, "shared_memory_region");
  if (json_object_get(parameters, "classification"))
    return refuse(reading, "output %.64s: classification is not served", name);
  if (strchr(name, ',')) return refuse(reading, "outputs is '%.64s'; allowed: one name each", name);
  if (binary && !json_is_boolean(binary)) return refuse(reading, "output %.64s: binary_data is no boolean", name);
  for (int tensor = 0; tensor < VX_TENSOR_COUNT; tensor++) {
    if (strcmp(name, vx_tensor_name((enum vx_tensor)tensor)) != 0) continue;
    if (shared && !region_ref_read(parameters, &infer->regions[tensor], reading->problem)) return false;
    if (shared) infer->shared |= VX_TENSOR_BIT(tensor);
    if (shared || (binary ? json_is_true(binary) : reading->binary_output)) infer->binary |= VX_TENSOR_BIT(tensor);
  }
  text_put(&reading->texts, name);
  return true;
}

static bool take_outputs(struct reading *reading, const json_t *outputs) {
  size_t begin = reading->texts.length, count = json_array_size(outputs);
  if (outputs && !json_is_array(outputs)) return refuse(reading, "outputs is no list");
  if (count == 0) {
    if (reading->binary_output) reading->infer->binary = UINT32_MAX;
    return true;
  }
  for (size_t i = 0; i < count; i++) {
    text_put(&reading->texts, i ? "," : "");
    if (!take_output(reading, json_array_get(outputs, i))) return false;
  }
  return add_text(reading, "outputs", begin);
}

// ---- bodies ---------------------------------------------------------------------------------------------------------

size_t infer_json_bytes(const struct infer *infer, size_t size) {
  return infer->head_bytes < 0 || (uint64_t)infer->head_bytes > size ? size : (size_t)infer->head_bytes;
}

static bool take_id(struct reading *reading, const json_t *id) {
  if (!id) return true;
  if (!json_is_string(id) || json_string_length(id) >= INFER_ID_SIZE)
    return refuse(reading, "id is no string of up to %d bytes", INFER_ID_SIZE - 1);
  memcpy(reading->infer->id, json_string_value(id), json_string_length(id) + 1);
  return true;
}

static bool read_json(struct reading *reading, const char *bytes, size_t size) {
  json_error_t error;
  if (size > INFER_JSON_MAX)
    return problem_set(reading->problem, PROBLEM_BODY_TOO_LARGE, NULL,
                       "the body's JSON has %zu bytes; allowed: up to %d; send tensors as binary data", size,
                       INFER_JSON_MAX);
  json_t *root = reading->body->root = json_read(bytes, size, &error);
  if (!root)
    return refuse(reading, "the body's JSON, line %d, column %d: %.200s", error.line, error.column, error.text);
  if (!json_is_object(root)) return refuse(reading, "the body's JSON is no object");
  return take_id(reading, json_object_get(root, "id")) &&
         take_parameters(reading, json_object_get(root, "parameters")) &&
         take_inputs(reading, json_object_get(root, "inputs")) &&
         take_outputs(reading, json_object_get(root, "outputs"));
}

// A body without JSON is the points alone, as rows of the model; its answer has all tensors as bytes.
static void read_raw(struct reading *reading, const struct job_request *request) {
  struct infer_body *body = reading->body;
  reading->infer->binary = UINT32_MAX;
  reading->dtype = request->dtype;
  body->points = reading->bytes;
  body->columns = request->num_features;
}

static bool check_columns(struct reading *reading, const struct job_request *request) {
  struct infer_body *body = reading->body;
  size_t row = job_request_row_bytes(request);
  if (reading->has_points && body->columns != request->num_features)
    return refuse(reading, "points has %lld columns; the model has %d", (long long)body->columns,
                  (int)request->num_features);
  if (reading->has_points) return true;
  body->rows = (int64_t)(reading->size / row);
  return reading->size % row == 0 ||
         refuse(reading, "the body has %zu bytes; allowed: a multiple of %zu, the size of a row", reading->size, row);
}

// The shape tells the number of columns, unless the model or a parameter does.
static bool add_columns(struct reading *reading) {
  size_t begin = reading->texts.length;
  if (!reading->has_points || reading->has_columns || reading->infer->preset) return true;
  text_printf(&reading->texts, "%lld", (long long)reading->body->columns);
  return add_text(reading, "num_features", begin);
}

static bool check_halves(struct reading *reading, const struct job_request *request) {
  uint32_t features = VX_TENSOR_BIT(VX_VOXEL_FEATURES) | VX_TENSOR_BIT(VX_PILLAR_FEATURES);
  bool half = request->job.op == VX_VOXELIZE && request->job.params.voxelize.feature_dtype == VX_FLOAT16;
  return !half || !(request->job.tensors & features & ~reading->infer->binary) ||
         refuse(reading, "float16 outputs are served as binary data alone");
}

bool infer_read(struct infer_body *body, const char *bytes, size_t size, const struct infer_memory *memory,
                struct infer *infer, struct job_request *request, struct problem *problem) {
  size_t head = infer_json_bytes(infer, size);
  struct reading reading = {.body = body, .infer = infer, .shared = memory, .problem = problem};
  *body = (struct infer_body){.root = NULL};
  reading.texts = text_over(reading.memory, sizeof reading.memory);
  if (infer->head_bytes > (int64_t)size)
    return refuse(&reading, "Inference-Header-Content-Length is %lld; the body has %zu bytes",
                  (long long)infer->head_bytes, size);
  reading.bytes = bytes + head;
  reading.size = size - head;
  if (infer->head_bytes == 0)
    read_raw(&reading, request);
  else if (!read_json(&reading, bytes, head) || !add_columns(&reading))
    return false;
  request->dtype = reading.dtype;
  return job_request_overlay(request, &reading.query, problem) && check_columns(&reading, request) &&
         check_halves(&reading, request);
}

void infer_end(struct infer_body *body) { json_decref(body->root); }
