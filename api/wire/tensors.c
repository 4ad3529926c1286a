// Reads bodies that are safetensors files; see wire.h.
#include "api/wire/wire.h"

#include <stdint.h>
#include <string.h>

#include "api/wire/tensor_file.h"

static bool take_tensor(const char *name, const json_t *entry, const struct tensor_file *file,
                        struct job_request *request, struct error *error) {
  const struct vx_operation *operation = &vx_operations[request->job.op];
  int number = input_find(operation, name);
  if (number < 0) return input_refuse(operation, name, NULL, error);
  const struct vx_input_row row = input_row(operation, number);
  return tensor_file_take(file, &row, entry, &request->job.inputs[number], error);
}

static bool take_tensors(const struct tensor_file *file, struct job_request *request, struct error *error) {
  const char *name;
  json_t *entry;
  memset(request->job.inputs, 0, sizeof request->job.inputs);
  json_object_foreach(file->header.root, name, entry) {
    if (strcmp(name, "__metadata__") == 0) continue;
    if (!take_tensor(name, entry, file, request, error)) return false;
  }
  return inputs_complete(request, error);
}

static bool are_aligned(const struct job_request *request, int *number) {
  for (*number = 0; *number < VX_MAX_INPUTS; ++*number)
    if (!input_is_aligned(request, *number)) return false;
  return true;
}

// If an input is not aligned, moves the data so that the first input is at a multiple of VX_TENSOR_ALIGNMENT. The data
// overwrites the end of the header, which is no longer needed.
static bool align(struct tensor_file *file, struct job_request *request, struct error *error) {
  struct vx_input *inputs = request->job.inputs;
  size_t beyond = (uintptr_t)inputs[0].data % VX_TENSOR_ALIGNMENT;
  int number;
  if (are_aligned(request, &number)) return true;
  memmove(file->data - beyond, file->data, file->data_bytes);
  for (int i = 0; i < VX_MAX_INPUTS; i++)
    if (inputs[i].rank) inputs[i].data = (const char *)inputs[i].data - beyond;
  if (are_aligned(request, &number)) return true;
  const struct vx_input_row *rows = vx_operations[request->job.op].inputs;
  return error_refuse(error, ERROR_BAD_BODY, NULL,
                      "tensor %s does not begin at a multiple of %zu bytes after tensor %s", rows[number].name,
                      vx_dtype_size(inputs[number].dtype), rows[0].name);
}

bool tensors_read(char *bytes, size_t size, struct job_request *request, struct error *error) {
  struct tensor_file file;
  if (!tensor_file_open("the body", bytes, size, &file, error)) return false;
  bool good = take_tensors(&file, request, error);
  tensor_file_close(&file);
  return good && align(&file, request, error);
}
