// See tensors.h.
#include "api/wire/tensors.h"

#include <stdint.h>
#include <string.h>

#include "api/base/json.h"
#include "api/wire/inputs.h"

enum { LENGTH_PREFIX = 8 };

struct tensor_file {
  const char *header;  // JSON
  size_t header_bytes;
  char *data;  // behind the header
  size_t data_bytes;
};

static bool refuse_file(struct problem *problem, const char *reason) {
  return problem_set(problem, PROBLEM_BAD_BODY, NULL, "the body is no safetensors file: %s", reason);
}

static bool open_file(char *bytes, size_t size, struct tensor_file *file, struct problem *problem) {
  uint64_t header = 0;
  if (size < LENGTH_PREFIX) return refuse_file(problem, "it has less than 8 bytes");
  for (int i = 0; i < LENGTH_PREFIX; i++) header |= (uint64_t)(unsigned char)bytes[i] << (8 * i);
  if (header > size - LENGTH_PREFIX) return refuse_file(problem, "its header would be longer than the body");
  if (header > TENSORS_HEADER_MAX)
    return problem_set(problem, PROBLEM_BAD_BODY, NULL,
                       "the header of the safetensors file has %llu bytes; allowed: %d", (unsigned long long)header,
                       TENSORS_HEADER_MAX);
  *file = (struct tensor_file){.header = bytes + LENGTH_PREFIX, .header_bytes = (size_t)header};
  file->data = bytes + LENGTH_PREFIX + header;
  file->data_bytes = size - LENGTH_PREFIX - (size_t)header;
  return true;
}

// ---- one tensor -----------------------------------------------------------------------------------------------------

static bool read_place(const char *name, const json_t *offsets, const struct tensor_file *file, size_t bytes,
                       struct vx_input *input, struct problem *problem) {
  const json_t *first = json_array_get(offsets, 0), *last = json_array_get(offsets, 1);
  json_int_t begin = json_integer_value(first), end = json_integer_value(last);
  if (json_array_size(offsets) != 2 || !json_is_integer(first) || !json_is_integer(last) || begin < 0 || end < begin)
    return problem_set(problem, PROBLEM_BAD_BODY, NULL,
                       "tensor %.64s: its data_offsets are no two numbers from 0 on, the first at most the second",
                       name);
  if ((uint64_t)end > file->data_bytes)
    return problem_set(problem, PROBLEM_BAD_BODY, NULL,
                       "tensor %.64s ends at byte %lld of the data, which has %zu bytes", name, (long long)end,
                       file->data_bytes);
  if ((uint64_t)(end - begin) != bytes)
    return problem_set(problem, PROBLEM_BAD_BODY, NULL, "tensor %.64s has %lld bytes; its shape has %zu", name,
                       (long long)(end - begin), bytes);
  if ((size_t)begin % vx_dtype_size(input->dtype) != 0)
    return problem_set(problem, PROBLEM_BAD_BODY, NULL,
                       "tensor %.64s begins at byte %lld of the data; allowed: a multiple of %zu", name,
                       (long long)begin, vx_dtype_size(input->dtype));
  input->data = file->data + begin;
  return true;
}

// ---- the inputs -----------------------------------------------------------------------------------------------------

static bool take_tensor(const char *name, const json_t *entry, const struct tensor_file *file,
                        struct job_request *request, struct problem *problem) {
  static const struct tensor_words words = {"tensor", "dtype", vx_dtype_name};
  const struct vx_operation *operation = vx_operation_of(request->job.op);
  int number = input_find(operation, name);
  if (number < 0) return input_refuse(operation, name, NULL, problem);
  struct vx_input *input = &request->job.inputs[number];
  size_t bytes;
  return input_describe(&operation->inputs[number], &words, json_string_value(json_object_get(entry, "dtype")),
                        json_object_get(entry, "shape"), input, &bytes, problem) &&
         read_place(name, json_object_get(entry, "data_offsets"), file, bytes, input, problem);
}

static bool take_tensors(json_t *root, const struct tensor_file *file, struct job_request *request,
                         struct problem *problem) {
  const char *name;
  json_t *entry;
  if (!json_is_object(root)) return refuse_file(problem, "its header is no JSON object");
  memset(request->job.inputs, 0, sizeof request->job.inputs);
  json_object_foreach(root, name, entry) {
    if (strcmp(name, "__metadata__") == 0) continue;
    if (!take_tensor(name, entry, file, request, problem)) return false;
  }
  return inputs_complete(request, problem);
}

static bool are_aligned(const struct job_request *request, int *number) {
  for (*number = 0; *number < VX_MAX_INPUTS; ++*number)
    if (!input_is_aligned(request, *number)) return false;
  return true;
}

// Moves the data over the header, which is not needed any more, so that the first input is aligned.
static bool align(struct tensor_file *file, struct job_request *request, struct problem *problem) {
  struct vx_input *inputs = request->job.inputs;
  size_t beyond = (uintptr_t)inputs[0].data % VX_TENSOR_ALIGNMENT;
  int number;
  if (are_aligned(request, &number)) return true;
  memmove(file->data - beyond, file->data, file->data_bytes);
  for (int i = 0; i < VX_MAX_INPUTS; i++)
    if (inputs[i].rank) inputs[i].data = (const char *)inputs[i].data - beyond;
  if (are_aligned(request, &number)) return true;
  const struct vx_input_row *rows = vx_operation_of(request->job.op)->inputs;
  return problem_set(problem, PROBLEM_BAD_BODY, NULL,
                     "tensor %s does not begin at a multiple of %zu bytes behind tensor %s", rows[number].name,
                     vx_dtype_size(inputs[number].dtype), rows[0].name);
}

bool tensors_read(char *bytes, size_t size, struct job_request *request, struct problem *problem) {
  struct tensor_file file = {.header = NULL};
  json_error_t error;
  if (!open_file(bytes, size, &file, problem)) return false;
  json_t *root = json_read(file.header, file.header_bytes, &error);
  if (!root)
    return problem_set(problem, PROBLEM_BAD_BODY, NULL, "the header of the safetensors file: %.200s", error.text);
  bool good = take_tensors(root, &file, request, problem);
  json_decref(root);
  return good && align(&file, request, problem);
}
