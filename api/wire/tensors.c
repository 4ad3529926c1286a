// See tensors.h.
#include "api/wire/tensors.h"

#include <stdint.h>
#include <string.h>

#include "api/base/json.h"
#include "kernels/ops.h"

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

static bool refuse(const char *name, struct problem *problem, const char *reason) {
  return problem_set(problem, PROBLEM_BAD_BODY, NULL, "tensor %.64s: %s", name, reason);
}

static bool read_dtype(const char *name, const json_t *value, uint32_t allowed, enum vx_dtype *dtype,
                       struct problem *problem) {
  const char *given = json_string_value(value);
  char names[64];
  struct text out = text_over(names, sizeof names);
  for (int number = 0; number < VX_DTYPES; number++) {
    enum vx_dtype each = (enum vx_dtype)number;
    if (!(allowed & VX_DTYPE_BIT(each))) continue;
    if (given && strcmp(given, vx_dtype_name(each)) == 0) {
      *dtype = each;
      return true;
    }
    text_printf(&out, "%s%s", out.length ? " or " : "", vx_dtype_name(each));
  }
  return problem_set(problem, PROBLEM_BAD_BODY, NULL, "tensor %.64s has the dtype %.16s; allowed: %s", name,
                     given ? given : "(no string)", names);
}

// `*bytes`: of a tensor of that shape.
static bool read_shape(const char *name, const json_t *shape, struct vx_input *input, size_t *bytes,
                       struct problem *problem) {
  size_t rank = json_array_size(shape);
  *bytes = vx_dtype_size(input->dtype);
  if (!json_is_array(shape) || rank < 1 || rank > VX_MAX_RANK)
    return problem_set(problem, PROBLEM_BAD_BODY, NULL, "tensor %.64s has no shape of 1 to %d dimensions", name,
                       VX_MAX_RANK);
  for (size_t d = 0; d < rank; d++) {
    json_int_t dim = json_integer_value(json_array_get(shape, d));
    if (!json_is_integer(json_array_get(shape, d)) || dim < 0)
      return refuse(name, problem, "a dimension of its shape is no number from 0 on");
    input->dims[d] = dim;
    if (__builtin_mul_overflow(*bytes, (uint64_t)dim, bytes)) return refuse(name, problem, "its shape is too large");
  }
  input->rank = (int)rank;
  return true;
}

static bool read_place(const char *name, const json_t *offsets, const struct tensor_file *file, size_t bytes,
                       struct vx_input *input, struct problem *problem) {
  const json_t *first = json_array_get(offsets, 0), *last = json_array_get(offsets, 1);
  json_int_t begin = json_integer_value(first), end = json_integer_value(last);
  if (json_array_size(offsets) != 2 || !json_is_integer(first) || !json_is_integer(last) || begin < 0 || end < begin)
    return refuse(name, problem, "its data_offsets are no two numbers from 0 on, the first at most the second");
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

static int find_input(const struct vx_operation *operation, const char *name) {
  for (int i = 0; i < VX_MAX_INPUTS && operation->inputs[i].name; i++)
    if (strcmp(operation->inputs[i].name, name) == 0) return i;
  return -1;
}

static bool refuse_name(const struct vx_operation *operation, const char *name, struct problem *problem) {
  char names[128];
  struct text out = text_over(names, sizeof names);
  for (int i = 0; i < VX_MAX_INPUTS && operation->inputs[i].name; i++)
    text_printf(&out, "%s%s", i ? ", " : "", operation->inputs[i].name);
  return problem_set(problem, PROBLEM_BAD_BODY, NULL, "there is no input '%.64s'; allowed: %s", name, names);
}

// One cloud's tensor may lack the dimension of clouds.
static void add_batch(const struct vx_input_row *row, struct vx_input *input) {
  int rank = 0;
  while (rank < VX_MAX_RANK && row->extents[rank] != VX_EXTENT_NONE) rank++;
  if (row->extents[0] != VX_EXTENT_BATCH || input->rank != rank - 1) return;
  memmove(input->dims + 1, input->dims, (size_t)input->rank * sizeof *input->dims);
  input->dims[0] = 1;
  input->rank = rank;
}

static bool take_tensor(const char *name, const json_t *entry, const struct tensor_file *file,
                        struct job_request *request, struct problem *problem) {
  const struct vx_operation *operation = vx_operation_of(request->job.op);
  int number = find_input(operation, name);
  if (number < 0) return refuse_name(operation, name, problem);
  struct vx_input *input = &request->job.inputs[number];
  size_t bytes;
  bool good =
      read_dtype(name, json_object_get(entry, "dtype"), operation->inputs[number].dtypes, &input->dtype, problem) &&
      read_shape(name, json_object_get(entry, "shape"), input, &bytes, problem) &&
      read_place(name, json_object_get(entry, "data_offsets"), file, bytes, input, problem);
  if (good) add_batch(&operation->inputs[number], input);
  return good;
}

static bool take_tensors(json_t *root, const struct tensor_file *file, struct job_request *request,
                         struct problem *problem) {
  const struct vx_operation *operation = vx_operation_of(request->job.op);
  const char *name;
  json_t *entry;
  if (!json_is_object(root)) return refuse_file(problem, "its header is no JSON object");
  memset(request->job.inputs, 0, sizeof request->job.inputs);
  json_object_foreach(root, name, entry) {
    if (strcmp(name, "__metadata__") == 0) continue;
    if (!take_tensor(name, entry, file, request, problem)) return false;
  }
  for (int i = 0; i < VX_MAX_INPUTS && operation->inputs[i].name; i++)
    if (request->job.inputs[i].rank == 0 && !operation->inputs[i].optional)
      return problem_set(problem, PROBLEM_BAD_BODY, NULL, "the input %s is missing", operation->inputs[i].name);
  return true;
}

static bool is_aligned(const struct vx_input *input, size_t alignment) {
  return input->rank == 0 || (uintptr_t)input->data % alignment == 0;
}

static bool are_aligned(const struct job_request *request, int *number) {
  const struct vx_input *inputs = request->job.inputs;
  bool points = vx_operation_of(request->job.op)->items == VX_POINT_ITEMS;
  for (*number = 0; *number < VX_MAX_INPUTS; ++*number)
    if (!is_aligned(&inputs[*number],
                    *number == 0 && points ? VX_TENSOR_ALIGNMENT : vx_dtype_size(inputs[*number].dtype)))
      return false;
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
