// See safetensors.h.
#include "api/wire/safetensors.h"

#include <string.h>

enum { LENGTH_PREFIX = 8, ALIGNMENT = VX_TENSOR_ALIGNMENT };

static void write_tensor(struct text *out, const char *name, int number, const struct vx_shape *shape, size_t offset) {
  text_put(out, ",\"");
  text_put(out, name);
  if (number >= 0) text_integer(out, number);
  text_put(out, "\":{\"dtype\":\"");
  text_put(out, vx_dtype_name(shape->dtype));
  text_put(out, "\",\"shape\":[");
  for (int d = 0; d < shape->rank; d++) {
    if (d) text_put(out, ",");
    text_integer(out, shape->dims[d]);
  }
  text_put(out, "],\"data_offsets\":[");
  text_integer(out, (int64_t)offset);
  text_put(out, ",");
  text_integer(out, (int64_t)(offset + shape->bytes));
  text_put(out, "]}");
}

static void write_header(const struct answer *answer, const struct vx_layout *layout, bool widest, struct text *out) {
  text_put(out, "{\"__metadata__\":{\"voxeld\":\"");
  out->quoted = true;
  answer_metadata(answer, widest, out);
  out->quoted = false;
  text_put(out, "\"}");
  size_t end = 0;
  int paddings = 0;
  for (int tensor = 0; tensor < VX_TENSOR_COUNT; tensor++) {
    if (!(layout->tensors & VX_TENSOR_BIT(tensor))) continue;
    size_t gap = layout->offset[tensor] - end;
    struct vx_shape padding = {.dtype = VX_UINT8, .rank = 1, .dims = {(int64_t)gap}, .bytes = gap};
    if (gap) write_tensor(out, "_padding_", paddings++, &padding, end);
    write_tensor(out, vx_tensor_name((enum vx_tensor)tensor), -1, &layout->shape[tensor], layout->offset[tensor]);
    end = layout->offset[tensor] + layout->shape[tensor].bytes;
  }
  text_put(out, "}");
}

size_t answer_header_reserve(const struct answer *answer, const struct vx_layout *layout) {
  struct text measure = text_over(NULL, 0);
  write_header(answer, layout, true, &measure);
  size_t needed = LENGTH_PREFIX + measure.length + 1;  // the builder ends its text with a NUL
  return (needed + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

void answer_frame_write(const struct answer *answer, const struct vx_layout *layout, char *block, size_t reserve,
                        char *tensors) {
  uint64_t length = reserve - LENGTH_PREFIX;
  for (int i = 0; i < LENGTH_PREFIX; i++) block[i] = (char)(length >> (8 * i) & 0xff);
  struct text header = text_over(block + LENGTH_PREFIX, length);
  write_header(answer, layout, false, &header);
  size_t written = header.length < length ? header.length : length;
  memset(block + LENGTH_PREFIX + written, ' ', length - written);
  // Zeros the padding: the memory may hold data of an earlier request.
  size_t end = 0;
  for (int tensor = 0; tensors && tensor < VX_TENSOR_COUNT; tensor++) {
    if (!(layout->tensors & VX_TENSOR_BIT(tensor))) continue;
    memset(tensors + end, 0, layout->offset[tensor] - end);
    end = layout->offset[tensor] + layout->shape[tensor].bytes;
  }
}
