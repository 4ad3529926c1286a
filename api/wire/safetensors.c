// See safetensors.h.
#include "api/wire/safetensors.h"

#include <string.h>

#include "api/base/bytes.h"
#include "api/base/json_write.h"

enum { LENGTH_PREFIX = 8, ALIGNMENT = VX_TENSOR_ALIGNMENT, BLOCK = 256 };

// Writes a tensor's entry without its name.
static void write_tensor(struct text *out, const struct vx_shape *shape, size_t offset) {
  json_printf(out, "{dtype:%s shape:", vx_dtype_name(shape->dtype));
  json_put_integers(out, shape->dims, shape->rank);
  json_printf(out, "data_offsets:[%zu %zu]}", offset, offset + shape->bytes);
}

static void write_header(const struct answer *answer, const struct vx_layout *layout, bool shuffled, bool widest,
                         struct text *out) {
  json_printf(out, "{__metadata__:{");
  if (shuffled) json_printf(out, "filter:%s", "shuffle");
  json_printf(out, "voxeld:");
  json_begin_string(out);
  answer_metadata(answer, widest, out);
  json_end(out);
  json_printf(out, "}");
  size_t end = 0;
  int paddings = 0;
  for (int tensor = 0; tensor < VX_TENSOR_COUNT; tensor++) {
    if (!(layout->tensors & VX_TENSOR_BIT(tensor))) continue;
    size_t gap = layout->offset[tensor] - end;
    struct vx_shape padding = {.dtype = VX_UINT8, .rank = 1, .dims = {(int64_t)gap}, .bytes = gap};
    if (gap) {
      json_printf(out, "_padding_%d:", paddings++);
      write_tensor(out, &padding, end);
    }
    json_printf(out, "%s:", vx_tensors[tensor].name);
    write_tensor(out, &layout->shape[tensor], layout->offset[tensor]);
    end = layout->offset[tensor] + layout->shape[tensor].bytes;
  }
  json_printf(out, "}");
}

static size_t room_of(const struct answer *answer, const struct vx_layout *layout, bool shuffled, bool widest,
                      struct text *measure) {
  write_header(answer, layout, shuffled, widest, measure);
  size_t needed = LENGTH_PREFIX + measure->length + 1;  // the builder ends its text with a NUL
  return (needed + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

// A header without times is final already: it is kept in the memory after the facts, if it fits.
size_t answer_header_reserve(struct answer *answer, const struct vx_layout *layout) {
  struct text *facts = &answer->facts;
  size_t room = answer->untimed && answer->facts_kept ? facts->capacity - facts->length - 1 : 0;
  answer->header = text_over(room ? facts->data + facts->length + 1 : NULL, room);
  return room_of(answer, layout, false, true, &answer->header);
}

bool answer_frame_write(const struct answer *answer, const struct vx_layout *layout, char *block, size_t reserve,
                        char *tensors) {
  uint64_t length = reserve - LENGTH_PREFIX;
  bytes_encode(block, length, LENGTH_PREFIX);
  struct text header = text_over(block + LENGTH_PREFIX, length);
  if (text_complete(&answer->header))
    text_append(&header, answer->header.data, answer->header.length);
  else
    write_header(answer, layout, false, false, &header);
  if (!text_complete(&header)) return false;
  memset(block + LENGTH_PREFIX + header.length, ' ', length - header.length);
  // The padding may hold data of an earlier request.
  size_t end = 0;
  for (int tensor = 0; tensors && tensor < VX_TENSOR_COUNT; tensor++) {
    if (!(layout->tensors & VX_TENSOR_BIT(tensor))) continue;
    memset(tensors + end, 0, layout->offset[tensor] - end);
    end = layout->offset[tensor] + layout->shape[tensor].bytes;
  }
  return true;
}

// ---- shuffled -------------------------------------------------------------------------------------------------------

static void put_planes(struct text *out, struct vx_stop *stop, const char *tensor, size_t rows, size_t width) {
  char *planes = bytes_reserve(out, rows * width);
  if (!planes || !tensor) return;
  for (size_t begin = 0, end; begin < rows && !vx_stopped(stop, BLOCK); begin = end) {
    end = rows - begin < BLOCK ? rows : begin + BLOCK;
    for (size_t k = 0; k < width; k++)
      for (size_t i = begin; i < end; i++) planes[k * rows + i] = tensor[i * width + k];
  }
}

static void put_tensor(struct text *out, struct vx_stop *stop, const char *tensor, const struct vx_shape *shape) {
  if (shape->rank > 2)
    bytes_append(out, stop, tensor, shape->bytes);
  else if (shape->bytes)
    put_planes(out, stop, tensor, (size_t)shape->dims[0], shape->bytes / (size_t)shape->dims[0]);
}

bool shuffled_write(const struct answer *answer, const struct vx_layout *layout, const char *tensors, struct text *out,
                    struct error *error) {
  struct text measure = text_over(NULL, 0);
  size_t begin = out->length, header = room_of(answer, layout, true, false, &measure);
  (void)error;
  bytes_put(out, header - LENGTH_PREFIX, LENGTH_PREFIX);
  write_header(answer, layout, true, false, out);
  while (out->length - begin < header) text_put(out, " ");
  for (int tensor = 0; tensor < VX_TENSOR_COUNT; tensor++) {
    if (!(layout->tensors & VX_TENSOR_BIT(tensor))) continue;
    bytes_zero(out, layout->offset[tensor] - (out->length - begin - header));
    put_tensor(out, answer->stop, tensors ? tensors + layout->offset[tensor] : NULL, &layout->shape[tensor]);
  }
  return true;
}
