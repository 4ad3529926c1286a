// See detector_parts.h.
#include "api/detector_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/base/text.h"

// ---- members --------------------------------------------------------------------------------------------------------

bool part_check_members(const char *where, json_t *object, const char *const *known, struct error *error) {
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

bool part_read_text(const json_t *object, const char *where, const char *name, char *out, size_t size,
                    struct error *error) {
  const json_t *value = json_object_get(object, name);
  const char *text = json_string_value(value);
  size_t length = json_string_length(value);
  if (!text || length == 0 || length >= size || strlen(text) != length)
    return error_set(error, MODEL "%s%s is not a string of 1 to %zu bytes", where, name, size - 1);
  memcpy(out, text, length + 1);
  return true;
}

bool part_read_file_name(const json_t *object, const char *where, char *out, size_t size, struct error *error) {
  return part_read_text(object, where, "file", out, size, error) &&
         ((!strchr(out, '/') && out[0] != '.') ||
          error_set(error, MODEL "%sfile is '%s'; allowed: the name of a file beside it", where, out));
}

bool part_read_number(const json_t *object, const char *where, const char *name, int64_t least, int64_t most,
                      int64_t *out, struct error *error) {
  const json_t *value = json_object_get(object, name);
  *out = json_integer_value(value);
  return (json_is_integer(value) && *out >= least && *out <= most) ||
         error_set(error, MODEL "%s%s is not a whole number from %lld to %lld", where, name, (long long)least,
                   (long long)most);
}

// ---- tensors --------------------------------------------------------------------------------------------------------

static bool refuse_shape(const char *name, const int64_t *dims, int rank, struct error *error) {
  char should[96];
  struct text text = text_over(should, sizeof should);
  for (int i = 0; i < rank; i++)
    if (dims[i] == -1)
      text_printf(&text, "%swidth", i ? ", " : "");
    else
      text_printf(&text, "%s%lld", i ? ", " : "", (long long)dims[i]);
  return error_set(error, "tensor %s does not have the shape [%s]", name, should);
}

bool part_find_tensor(const struct tensor_file *file, const char *name, const int64_t *dims, int rank,
                      struct vx_input *input, struct error *error) {
  const struct vx_input_row row = {.name = name, .dtypes = VX_DTYPE_BIT(VX_FLOAT32)};
  const json_t *entry = json_object_get(file->header.root, name);
  if (!entry) return error_set(error, "it has no tensor %s", name);
  if (!tensor_file_take(file, &row, entry, input, error)) return false;
  bool fits = input->rank == rank;
  for (int i = 0; fits && i < rank; i++)
    fits = dims[i] == -1 ? input->dims[i] >= 1 && input->dims[i] <= PART_MAX_WIDTH : input->dims[i] == dims[i];
  return fits || refuse_shape(name, dims, rank, error);
}

// The product cannot overflow, since the values are in memory. The data may be unaligned.
float *part_copy_values(const struct vx_input *input, const char *name, struct error *error) {
  size_t count = 1;
  for (int i = 0; i < input->rank; i++) count *= (size_t)input->dims[i];
  float *values = count == 0 ? NULL : malloc(count * sizeof *values);
  if (!values) {
    error_set(error, "out of memory");
    return NULL;
  }
  memcpy(values, input->data, count * sizeof *values);
  for (size_t i = 0; i < count; i++) {
    if (isfinite(values[i])) continue;
    error_set(error, "tensor %s has values that are not finite", name);
    free(values);
    return NULL;
  }
  return values;
}
