// The cost and the numbers of JSON in inference requests; see wire.h.
#include "api/wire/wire.h"

#include <math.h>
#include <string.h>

#include "api/base/json.h"
#include "api/wire/gather.h"

size_t infer_json_cost(const char *bytes, size_t size) { return size > INFER_JSON_MAX ? 0 : json_cost(bytes, size); }

// ---- numbers --------------------------------------------------------------------------------------------------------

struct numbers {
  enum vx_dtype dtype;
  size_t left;
  struct vx_stop *stop;
  char *out;
};

const int64_t infer_whole_limits[VX_DTYPES][2] = {
    [VX_INT8] = {INT8_MIN, INT8_MAX}, [VX_INT16] = {INT16_MIN, INT16_MAX}, [VX_INT32] = {INT32_MIN, INT32_MAX},
    [VX_UINT8] = {0, UINT8_MAX},      [VX_UINT16] = {0, UINT16_MAX},       [VX_UINT32] = {0, UINT32_MAX},
};

static bool is_whole(const json_t *value, const int64_t limits[2]) {
  return json_is_integer(value) && json_integer_value(value) >= limits[0] && json_integer_value(value) <= limits[1];
}

static bool write_number(const json_t *value, enum vx_dtype dtype, char *out) {
  float real = (float)json_number_value(value);
  json_int_t integer = json_integer_value(value);
  if (json_is_null(value)) real = NAN;  // answers write null for NaN
  if (dtype == VX_FLOAT32) memcpy(out, &real, sizeof real);
  if (vx_is_float(dtype)) return dtype == VX_FLOAT32 && (json_is_number(value) || json_is_null(value));
  memcpy(out, &integer, vx_dtype_size(dtype));  // little-endian
  return is_whole(value, infer_whole_limits[dtype]);
}

// `dims` [rank]: the sizes of the list, of the lists in it, and so on.
static bool write_list(const json_t *list, const int64_t *dims, int rank, struct numbers *numbers) {
  if (!json_is_array(list) || json_array_size(list) != (uint64_t)dims[0]) return false;
  for (size_t i = 0; i < json_array_size(list); i++) {
    const json_t *value = json_array_get(list, i);
    if (rank > 1) {
      if (!write_list(value, dims + 1, rank - 1, numbers)) return false;
      continue;
    }
    if (numbers->left == 0 || vx_stopped(numbers->stop, 1) || !write_number(value, numbers->dtype, numbers->out))
      return false;
    numbers->left--;
    numbers->out += vx_dtype_size(numbers->dtype);
  }
  return true;
}

bool infer_write_numbers(const json_t *list, const struct vx_input *tensor, size_t count, struct vx_stop *stop,
                         char *out) {
  struct numbers numbers = {.dtype = tensor->dtype, .left = count, .stop = stop};
  numbers.out = out;
  const int64_t flat = (int64_t)count;
  bool nested = tensor->rank > 1 && json_is_array(json_array_get(list, 0));
  return write_list(list, nested ? tensor->dims : &flat, nested ? tensor->rank : 1, &numbers) && numbers.left == 0;
}

void infer_note_losses(const json_t *list, const struct vx_input *points, struct vx_stop *stop,
                       struct cloud_loss *loss) {
  const size_t columns = (size_t)points->dims[1];
  VX_EACH_ROW(stop, i, 0, points->dims[0]) {
    const json_t *row = json_array_get(list, (size_t)i);
    bool nested = json_is_array(row);
    for (size_t c = 0; c < 3; c++) {
      double wide = json_number_value(json_array_get(nested ? row : list, nested ? c : (size_t)i * columns + c));
      cloud_note_loss(loss, wide, (float)wide);
    }
  }
}
