// See inputs.h.
#include "api/wire/inputs.h"

#include <stdint.h>
#include <string.h>

#include "api/base/suggest.h"

// ---- names ----------------------------------------------------------------------------------------------------------

int input_find(const struct vx_operation *operation, const char *name) {
  for (int i = 0; i < VX_MAX_INPUTS && operation->inputs[i].name; i++)
    if (strcmp(operation->inputs[i].name, name) == 0) return i;
  return -1;
}

struct vx_input_row input_row(const struct vx_operation *operation, int number) {
  struct vx_input_row row = operation->inputs[number];
  if (operation->items == VX_POINT_ITEMS && number == VX_POINTS) row.dtypes = VX_DTYPE_BIT(VX_SENT_TYPES) - 1;
  return row;
}

bool input_refuse(const struct vx_operation *operation, const char *name, const char *also, struct error *error) {
  char names[256], hint[96];
  struct text out = text_over(names, sizeof names);
  struct suggestion near = suggest(name, strlen(name));
  for (int i = 0; i < VX_MAX_INPUTS && operation->inputs[i].name; i++) {
    text_printf(&out, "%s%s", i ? ", " : "", operation->inputs[i].name);
    suggest_try(&near, operation->inputs[i].name);
  }
  if (also) {
    text_printf(&out, ", %s", also);
    suggest_try(&near, also);
  }
  return error_refuse(error, ERROR_BAD_BODY, NULL, "there is no input '%.64s'%s; allowed: %s", name,
                      suggest_text(&near, hint, sizeof hint), names);
}

bool inputs_complete(const struct job_request *request, struct error *error) {
  const struct vx_operation *operation = &vx_operations[request->job.op];
  for (int i = 0; i < VX_MAX_INPUTS && operation->inputs[i].name; i++)
    if (request->job.inputs[i].rank == 0 && !operation->inputs[i].optional)
      return error_refuse(error, ERROR_BAD_BODY, NULL, "the input %s is missing", operation->inputs[i].name);
  return true;
}

// ---- types and shapes -----------------------------------------------------------------------------------------------

static bool read_dtype(const struct vx_input_row *row, const struct tensor_words *words, const char *given,
                       enum vx_dtype *dtype, struct error *error) {
  char names[128];
  struct text out = text_over(names, sizeof names);
  for (int number = 0; number < VX_DTYPES; number++) {
    enum vx_dtype each = (enum vx_dtype)number;
    if (!(row->dtypes & VX_DTYPE_BIT(each))) continue;
    if (given && strcmp(given, words->spell(each)) == 0) {
      *dtype = each;
      return true;
    }
    text_printf(&out, "%s%s", out.length ? " or " : "", words->spell(each));
  }
  return error_refuse(error, ERROR_BAD_BODY, NULL, "%s %s has the %s %.20s; allowed: %s", words->tensor, row->name,
                      words->type, given ? given : "(not a string)", names);
}

static bool read_shape(const struct vx_input_row *row, const struct tensor_words *words, const json_t *shape,
                       struct vx_input *input, size_t *bytes, struct error *error) {
  size_t rank = json_array_size(shape);
  *bytes = vx_dtype_size(input->dtype);
  if (!json_is_array(shape) || rank < 1 || rank > VX_MAX_RANK)
    return error_refuse(error, ERROR_BAD_BODY, NULL, "%s %s has no shape of 1 to %d dimensions", words->tensor,
                        row->name, VX_MAX_RANK);
  for (size_t d = 0; d < rank; d++) {
    json_int_t dim = json_integer_value(json_array_get(shape, d));
    if (!json_is_integer(json_array_get(shape, d)) || dim < 0)
      return error_refuse(error, ERROR_BAD_BODY, NULL,
                          "%s %s: dimension %zu of its shape is not a whole number of 0 or more", words->tensor,
                          row->name, d);
    input->dims[d] = dim;
    if (__builtin_mul_overflow(*bytes, (uint64_t)dim, bytes))
      return error_refuse(error, ERROR_BAD_BODY, NULL, "%s %s: its shape is too large", words->tensor, row->name);
  }
  input->rank = (int)rank;
  return true;
}

// The tensor of a lone cloud may lack the dimension of clouds.
static void add_batch(const struct vx_input_row *row, struct vx_input *input) {
  int rank = 0;
  while (rank < VX_MAX_RANK && row->extents[rank] != VX_EXTENT_NONE) rank++;
  if (row->extents[0] != VX_EXTENT_BATCH || input->rank != rank - 1) return;
  memmove(input->dims + 1, input->dims, (size_t)input->rank * sizeof *input->dims);
  input->dims[0] = 1;
  input->rank = rank;
}

bool input_describe(const struct vx_input_row *row, const struct tensor_words *words, const char *dtype,
                    const json_t *shape, struct vx_input *input, size_t *bytes, struct error *error) {
  *input = (struct vx_input){.data = NULL};
  if (!read_dtype(row, words, dtype, &input->dtype, error) || !read_shape(row, words, shape, input, bytes, error))
    return false;
  add_batch(row, input);
  return true;
}

// ---- points ---------------------------------------------------------------------------------------------------------

bool inputs_take_points(struct job_request *request, bool fixed, struct error *error) {
  struct vx_input *points = &request->job.inputs[VX_POINTS];
  if (vx_operations[request->job.op].items != VX_POINT_ITEMS) return true;
  if (points->rank != 2 || points->dims[1] < VX_MIN_FEATURES || points->dims[1] > VX_MAX_FEATURES)
    return error_refuse(error, ERROR_BAD_BODY, NULL,
                        "the input points does not have the shape [N, C] with C from %d to %d", VX_MIN_FEATURES,
                        VX_MAX_FEATURES);
  fixed = fixed || request->num_fields || job_request_is_given(request, "num_features");
  if (fixed && points->dims[1] != request->num_features)
    return error_refuse(error, ERROR_BAD_BODY, "num_features", "points has %lld columns; num_features is %d",
                        (long long)points->dims[1], (int)request->num_features);
  request->num_features = (int32_t)points->dims[1];
  job_request_set_dtype(request, points->dtype);
  points->dtype = request->dtype;
  return !vx_is_narrow(request->dtype) || request->intensity_scale == 0 ||
         error_refuse(error, ERROR_BAD_BODY, "intensity_scale", "points is %s; intensity_scale needs another type",
                      vx_float_words[request->dtype]);
}

// ---- places ---------------------------------------------------------------------------------------------------------

bool input_is_aligned(const struct job_request *request, int number) {
  const struct vx_input *input = &request->job.inputs[number];
  bool points = number == VX_POINTS && vx_operations[request->job.op].items == VX_POINT_ITEMS;
  size_t alignment = points ? VX_TENSOR_ALIGNMENT : vx_dtype_size(input->dtype);
  return input->rank == 0 || (uintptr_t)input->data % alignment == 0;
}
