// See infer.h. The parameters, and other members of the JSON that describe the job, become a query, which is checked
// like any query.
#include "api/wire/infer.h"

#include <stdio.h>
#include <string.h>

#include "api/base/json.h"
#include "api/ops/overlay.h"
#include "api/wire/inputs.h"
#include "api/wire/region.h"
#include "api/wire/wire.h"
#include "kernels/ops.h"

static const vx_tensor_set all_tensors = ~(vx_tensor_set)0;

// A body that is being read, and memory for the query's values.
struct reading {
  struct infer_body *body;
  struct infer *infer;
  const struct infer_memory *shared;
  struct error *error;
  const char *bytes;  // after the JSON
  size_t size;
  bool binary_output;  // default of binary_data
  struct query query;
  struct text texts;
  char memory[65536];  // enough for point_counts of VX_MAX_CLOUDS clouds
};

__attribute__((format(printf, 2, 3))) static bool refuse(struct reading *reading, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  error_write(reading->error, ERROR_BAD_BODY, NULL, format, arguments);
  va_end(arguments);
  return false;
}

// ---- the query ------------------------------------------------------------------------------------------------------

static bool add_item(struct reading *reading, const char *name, const char *value, size_t length) {
  struct query *query = &reading->query;
  if (query->count == QUERY_MAX_ITEMS) return refuse(reading, "there are more than %d parameters", QUERY_MAX_ITEMS);
  query->items[query->count++] = (struct query_item){name, value, strlen(name), length};
  return true;
}

// The value was written to `texts` from `begin` on.
static bool add_text(struct reading *reading, const char *name, size_t begin) {
  size_t length = reading->texts.length - begin;
  text_append(&reading->texts, "", 1);  // a NUL separates the values
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

// Lists become values separated by commas.
static bool add_parameter(struct reading *reading, const char *name, const json_t *value) {
  struct text *out = &reading->texts;
  size_t begin = out->length, count = json_is_array(value) ? json_array_size(value) : 1;
  for (size_t i = 0; i < count; i++) {
    if (i) text_put(out, ",");
    if (!write_value(json_is_array(value) ? json_array_get(value, i) : value, out))
      return refuse(reading, "parameter %.64s is not a string, number or boolean, or a list of these", name);
  }
  return add_text(reading, name, begin);
}

// ---- the request's parameters ---------------------------------------------------------------------------------------

static bool take_binary_output(struct reading *reading, const json_t *value) {
  reading->binary_output = json_is_true(value);
  return json_is_boolean(value) || refuse(reading, "binary_data_output is not a boolean");
}

// Microseconds here, milliseconds in a query. 0 = none.
static bool take_timeout(struct reading *reading, const json_t *value) {
  json_int_t us = json_integer_value(value);
  if (!json_is_integer(value) || us < 0) return refuse(reading, "timeout is not a number of microseconds");
  size_t begin = reading->texts.length;
  text_printf(&reading->texts, "%lld", (long long)(us / 1000 + (us % 1000 > 0)));
  return add_text(reading, "timeout_ms", begin);
}

// Parameters of the protocol, and those that requests of this protocol may not have; all others belong to the
// operation. A parameter whose row has neither function nor refusal is ignored.
static const struct {
  const char *name;
  bool (*take)(struct reading *reading, const json_t *value);
  const char *refusal;
} reserved[] = {
    {"binary_data_output", take_binary_output, NULL},
    {"timeout", take_timeout, NULL},
    {"priority", NULL, NULL},
    {"headers", NULL, NULL},
    {"sequence_id", NULL, NULL},
    {"sequence_start", NULL, NULL},
    {"sequence_end", NULL, NULL},
    {"preset", NULL, "preset is a parameter; name the preset as the model instead"},
    {"model", NULL, "model is a parameter; the path names the model"},
    {"format", NULL, "format and dtype are given by the inputs, not by parameters"},
    {"dtype", NULL, "format and dtype are given by the inputs, not by parameters"},
    {"latest", NULL, "latest is given in the query, not by parameters"},
    {"filter", NULL, "filter goes with raw rows, not with tensors"},
    {"points_region", NULL, "regions are given by inputs and outputs (shared_memory_region), not by parameters"},
    {"output_region", NULL, "regions are given by inputs and outputs (shared_memory_region), not by parameters"},
};

static bool take_parameter(struct reading *reading, const char *name, const json_t *value) {
  for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++) {
    if (strcmp(reserved[i].name, name) != 0) continue;
    if (reserved[i].refusal) return refuse(reading, "%s", reserved[i].refusal);
    return !reserved[i].take || reserved[i].take(reading, value);
  }
  return add_parameter(reading, name, value);
}

static bool take_parameters(struct reading *reading, json_t *parameters) {
  const char *name;
  json_t *value;
  if (!parameters) return true;
  if (!json_is_object(parameters)) return refuse(reading, "parameters is not an object");
  json_object_foreach(parameters, name, value) if (!take_parameter(reading, name, value)) return false;
  return true;
}

// ---- inputs ---------------------------------------------------------------------------------------------------------

static bool take_counts(struct reading *reading, const struct job_request *request) {
  const struct infer_input *counts = &reading->body->inputs.counts;
  const char *name = job_request_counts(request);
  struct text *out = &reading->texts;
  int32_t values[VX_MAX_CLOUDS];
  size_t begin = out->length;
  if (counts->tensor.rank == 0) return true;
  if (!infer_input_copy(counts, name, reading->shared, (char *)values, reading->error)) return false;
  for (int64_t i = 0; i < counts->tensor.dims[0]; i++) text_printf(out, "%s%d", i ? "," : "", (int)values[i]);
  return add_text(reading, name, begin);
}

// ---- outputs --------------------------------------------------------------------------------------------------------

static bool take_output(struct reading *reading, const json_t *object) {
  const char *given = json_string_value(json_object_get(object, "name")), *name = given ? given : "";
  const json_t *parameters = json_object_get(object, "parameters"),
               *binary = json_object_get(parameters, "binary_data");
  struct infer *infer = reading->infer;
  bool shared = json_object_get(parameters, "shared_memory_region");
  if (json_object_get(parameters, "classification"))
    return refuse(reading, "output %.64s: classification is not served", name);
  if (strchr(name, ','))
    return refuse(reading, "output %.64s: the name has a comma; allowed: one name for each output", name);
  if (binary && !json_is_boolean(binary)) return refuse(reading, "output %.64s: binary_data is not a boolean", name);
  for (int tensor = 0; tensor < VX_TENSOR_COUNT; tensor++) {
    if (strcmp(name, vx_tensors[tensor].name) != 0) continue;
    if (shared && !region_ref_read(parameters, &infer->regions[tensor], reading->error)) return false;
    if (shared) infer->shared |= VX_TENSOR_BIT(tensor);
    if (shared || (binary ? json_is_true(binary) : reading->binary_output)) infer->binary |= VX_TENSOR_BIT(tensor);
  }
  text_put(&reading->texts, name);
  return true;
}

static bool take_outputs(struct reading *reading, const json_t *outputs) {
  size_t begin = reading->texts.length, count = json_array_size(outputs);
  if (outputs && !json_is_array(outputs)) return refuse(reading, "outputs is not a list");
  if (count == 0) {
    if (reading->binary_output) reading->infer->binary = all_tensors;
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
    return refuse(reading, "id is not a string of up to %d bytes", INFER_ID_SIZE - 1);
  memcpy(reading->infer->id, json_string_value(id), json_string_length(id) + 1);
  return true;
}

static bool read_json(struct reading *reading, const char *bytes, size_t size, const struct job_request *request) {
  struct json_document *json = &reading->body->json;
  if (size > INFER_JSON_MAX)
    return error_refuse(reading->error, ERROR_BODY_TOO_LARGE, NULL,
                        "the body's JSON has %zu bytes; allowed: up to %d; send tensors as binary data", size,
                        INFER_JSON_MAX);
  if (!json_open_sent(json, "the body's JSON", bytes, size, reading->shared->stop, reading->error)) return false;
  const json_t *root = json->root;
  if (!json_is_object(root)) return refuse(reading, "the body's JSON is not an object");
  return take_id(reading, json_object_get(root, "id")) &&
         take_parameters(reading, json_object_get(root, "parameters")) &&
         infer_inputs_read(&reading->body->inputs, json_object_get(root, "inputs"), request, reading->bytes,
                           reading->size, reading->error) &&
         take_counts(reading, request) && take_outputs(reading, json_object_get(root, "outputs"));
}

// A body without JSON has only the rows of the points, as the model describes them. The answer has all tensors as
// bytes.
static bool read_raw(struct reading *reading, const struct job_request *request) {
  const struct vx_operation *operation = &vx_operations[request->job.op];
  size_t row = job_request_row_bytes(request), size = reading->size;
  if (operation->items != VX_POINT_ITEMS)
    return refuse(reading, "a body without JSON is the input points, which %s does not have", operation->name);
  if (request->columns.num_types > 1)
    return refuse(reading, "a body without JSON is a tensor of one type, but the preset has several types");
  if (size % row != 0)
    return refuse(reading, "the body has %zu bytes; allowed: a multiple of %zu, the size of a row", size, row);
  reading->infer->binary = all_tensors;
  reading->body->inputs.list[VX_POINTS] = (struct infer_input){
      .tensor = vx_points_of(column_dtype(&request->columns, 0), (int64_t)(size / row), request->num_features, NULL),
      .bytes = size,
      .binary = reading->bytes,
  };
  return true;
}

// The inputs of the body replace the inputs that the parameters describe.
static bool take_inputs(struct reading *reading, struct job_request *request) {
  for (int i = 0; i < VX_MAX_INPUTS; i++) request->job.inputs[i] = reading->body->inputs.list[i].tensor;
  return inputs_complete(request, reading->error) &&
         inputs_take_points(request, reading->infer->preset, reading->error);
}

// Narrow types are not written as JSON.
static bool check_narrow(struct reading *reading, const struct job_request *request) {
  struct vx_sizes sizes = vx_sizes_of(&request->job);
  vx_tensor_set refused = request->job.tensors & vx_narrow_tensors(&sizes) & ~reading->infer->binary;
  return !refused || refuse(reading, "%s outputs are served only as binary data",
                            vx_numbers[vx_tensor_dtype((enum vx_tensor)__builtin_ctzll(refused), &sizes)].word);
}

bool infer_read(struct infer_body *body, const char *bytes, size_t size, const struct infer_memory *memory,
                struct infer *infer, struct job_request *request, struct error *error) {
  size_t head = infer_json_bytes(infer, size);
  struct reading reading = {.body = body, .infer = infer, .shared = memory, .error = error};
  *body = (struct infer_body){.json.root = NULL};
  reading.texts = text_over(reading.memory, sizeof reading.memory);
  if (infer->head_bytes > (int64_t)size)
    return refuse(&reading, "Inference-Header-Content-Length is %lld; the body has %zu bytes",
                  (long long)infer->head_bytes, size);
  reading.bytes = bytes + head;
  reading.size = size - head;
  if (infer->head_bytes == 0 ? !read_raw(&reading, request) : !read_json(&reading, bytes, head, request)) return false;
  const struct vx_input *points = &body->inputs.list[VX_POINTS].tensor;
  if (points->rank) job_request_set_dtype(request, points->dtype);
  return job_request_overlay(request, &reading.query, error) && take_inputs(&reading, request) &&
         check_narrow(&reading, request);
}

void infer_end(struct infer_body *body) { json_close(&body->json); }
