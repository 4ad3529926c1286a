// See infer_inputs.h.
#include "api/wire/infer_inputs.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "api/wire/inputs.h"
#include "api/wire/model.h"
#include "api/wire/region.h"
#include "api/wire/wire.h"

static const struct tensor_words words = {"input", "datatype", model_datatype};

// A list of inputs that is being read.
struct reading {
  struct infer_inputs *inputs;
  const struct vx_operation *operation;
  const char *counts;  // the parameter that counts rows; NULL = none
  const char *bytes;   // left for further inputs
  size_t size;
  struct error *error;
};

__attribute__((format(printf, 3, 4))) static bool refuse(const struct reading *reading, const char *name,
                                                         const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  error_write(reading->error, ERROR_BAD_BODY, NULL, format, arguments);
  va_end(arguments);
  return error_prefix(reading->error, "input %s", name);
}

// ---- the list -------------------------------------------------------------------------------------------------------

// The inputs take the bytes after the JSON in order.
static bool take_bytes(struct reading *reading, const char *name, const json_t *size, struct infer_input *input,
                       size_t *taken) {
  json_int_t bytes = json_integer_value(size);
  if (!json_is_integer(size) || bytes < 0) return refuse(reading, name, ": binary_data_size is not a number of bytes");
  if ((uint64_t)bytes > reading->size)
    return refuse(reading, name, ": binary_data_size is %lld, but only %zu bytes are left", (long long)bytes,
                  reading->size);
  *taken = (size_t)bytes;
  input->binary = reading->bytes;
  reading->bytes += bytes;
  reading->size -= (size_t)bytes;
  return true;
}

// Finds the values. Type and shape are known.
static bool read_place(struct reading *reading, const char *name, const json_t *object, struct infer_input *input) {
  const json_t *parameters = json_object_get(object, "parameters"), *data = json_object_get(object, "data");
  const json_t *size = json_object_get(parameters, "binary_data_size");
  const json_t *region = json_object_get(parameters, "shared_memory_region");
  size_t given = input->bytes;
  input->json = json_is_null(data) ? NULL : data;  // KServe's client writes null if there are no bytes
  if ((input->json != NULL) + (size != NULL) + (region != NULL) != 1)
    return refuse(reading, name, ": allowed: one of data, binary_data_size and shared_memory_region");
  if (input->json && vx_is_narrow(input->tensor.dtype))
    return refuse(reading, name, " has the datatype %s; allowed: as binary data or in shared memory",
                  vx_numbers[input->tensor.dtype].kserve);
  if (region && !region_ref_read(parameters, &input->region, reading->error)) return false;
  if (region) given = (size_t)input->region.bytes;
  if (size && !take_bytes(reading, name, size, input, &given)) return false;
  return given == input->bytes || refuse(reading, name, " has %zu bytes; its shape has %zu", given, input->bytes);
}

static bool read_input(struct reading *reading, const json_t *object) {
  const char *given = json_string_value(json_object_get(object, "name")), *name = given ? given : "";
  int number = input_find(reading->operation, name);
  bool counts = reading->counts && strcmp(name, reading->counts) == 0;
  if (number < 0 && !counts) return input_refuse(reading->operation, name, reading->counts, reading->error);
  const struct vx_input_row of_counts = {name, VX_DTYPE_BIT(VX_INT32), {VX_EXTENT_BATCH}, true};
  const struct vx_input_row row = counts ? of_counts : input_row(reading->operation, number);
  struct infer_input *input = counts ? &reading->inputs->counts : &reading->inputs->list[number];
  if (input->tensor.rank) return error_refuse(reading->error, ERROR_BAD_BODY, NULL, "there are two inputs %s", name);
  if (!input_describe(&row, &words, json_string_value(json_object_get(object, "datatype")),
                      json_object_get(object, "shape"), &input->tensor, &input->bytes, reading->error))
    return false;
  if (counts && (input->tensor.rank != 1 || input->tensor.dims[0] > VX_MAX_CLOUDS))
    return refuse(reading, name, " does not have the shape [B] with B up to %d", VX_MAX_CLOUDS);
  return read_place(reading, name, object, input);
}

bool infer_inputs_read(struct infer_inputs *inputs, const json_t *list, const struct job_request *request,
                       const char *bytes, size_t size, struct error *error) {
  struct reading reading = {inputs, &vx_operations[request->job.op], job_request_counts(request), bytes, size, error};
  if (!json_is_array(list)) return error_refuse(error, ERROR_BAD_BODY, NULL, "there is no list of inputs");
  for (size_t i = 0; i < json_array_size(list); i++)
    if (!read_input(&reading, json_array_get(list, i))) return false;
  return reading.size == 0 ||
         error_refuse(error, ERROR_BAD_BODY, NULL, "%zu bytes are left after the bytes of the inputs", reading.size);
}

// ---- the values -----------------------------------------------------------------------------------------------------

// For an error.
static const char *numbers_of(enum vx_dtype dtype, char *out, size_t size) {
  const int64_t *limits = infer_whole_limits[dtype];
  if (vx_is_float(dtype)) return "numbers";
  snprintf(out, size, "whole numbers from %lld to %lld", (long long)limits[0], (long long)limits[1]);
  return out;
}

bool infer_input_copy(const struct infer_input *input, const char *name, const struct infer_memory *memory, char *out,
                      struct error *error) {
  char numbers[64];
  size_t count = input->bytes / vx_dtype_size(input->tensor.dtype);
  if (input->region.name[0]) return memory->read(memory->cls, &input->region, out, error);
  if (input->binary) vx_copy(memory->stop, out, input->binary, input->bytes);
  return input->binary || infer_write_numbers(input->json, &input->tensor, count, memory->stop, out) ||
         error_refuse(error, ERROR_BAD_BODY, NULL,
                      "the data of %s is not a list of %zu %s, flat or nested exactly as its shape", name, count,
                      numbers_of(input->tensor.dtype, numbers, sizeof numbers));
}

bool infer_inputs_bind(const struct infer_inputs *inputs, struct job_request *request) {
  for (int i = 0; i < VX_MAX_INPUTS; i++) {
    const struct infer_input *input = &inputs->list[i];
    request->job.inputs[i].data = input->binary;
    if (input->tensor.rank && (!input->binary || !input_is_aligned(request, i))) return false;
  }
  return true;
}

const struct region_ref *infer_inputs_shared(const struct infer_inputs *inputs) {
  for (int i = 1; i < VX_MAX_INPUTS; i++)
    if (inputs->list[i].tensor.rank) return NULL;
  const struct infer_input *first = &inputs->list[0];
  return first->tensor.rank && first->region.name[0] ? &first->region : NULL;
}

static bool add_place(size_t *end, const struct infer_input *input) {
  size_t padded;
  return !__builtin_add_overflow(input->bytes, VX_TENSOR_ALIGNMENT - 1, &padded) &&
         !__builtin_add_overflow(*end, padded / VX_TENSOR_ALIGNMENT * VX_TENSOR_ALIGNMENT, end);
}

size_t infer_inputs_bytes(const struct infer_inputs *inputs) {
  size_t end = VX_TENSOR_ALIGNMENT;  // data is not NULL, even without values
  for (int i = 0; i < VX_MAX_INPUTS; i++)
    if (!add_place(&end, &inputs->list[i])) return SIZE_MAX;
  return end;
}

bool infer_inputs_copy(const struct infer_inputs *inputs, const struct infer_memory *memory, char *out,
                       struct job_request *request, struct error *error) {
  const struct vx_input_row *rows = vx_operations[request->job.op].inputs;
  size_t at = 0;
  for (int i = 0; i < VX_MAX_INPUTS; i++) {
    const struct infer_input *input = &inputs->list[i];
    if (!input->tensor.rank) continue;
    if (!infer_input_copy(input, rows[i].name, memory, out + at, error)) return false;
    request->job.inputs[i].data = out + at;
    if (!add_place(&at, input)) return false;  // never: `out` has room for all
  }
  return true;
}

void infer_inputs_loss(const struct infer_inputs *inputs, const struct job_request *request, struct vx_stop *stop,
                       struct cloud_loss *loss) {
  const struct infer_input *points = &inputs->list[VX_POINTS];
  bool are_points = vx_operations[request->job.op].items == VX_POINT_ITEMS;
  if (are_points && points->json && points->tensor.rank == 2 && points->tensor.dtype == VX_FLOAT32)
    infer_note_losses(points->json, &points->tensor, stop, loss);
}
