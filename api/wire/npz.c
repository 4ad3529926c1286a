// Writes npz files; see wire.h.
#include "api/wire/wire.h"

#include <string.h>

#include "api/base/bytes.h"
#include "api/wire/metadata.h"
#include "api/wire/zip.h"

enum { NPY_HEADER = 128 };  // a multiple of 64 with room for the longest shape

_Static_assert((int)ZIP_MEMBERS > (int)VX_TENSOR_COUNT, "there is a member for each tensor and one for the metadata");

// Version 1.0 of npy: magic, version, length of the rest, a Python dictionary, a newline.
static void put_npy_header(struct text *out, const struct vx_shape *shape) {
  static const char magic[] = "\x93NUMPY\1";  // the NUL is the minor version
  char memory[NPY_HEADER];
  struct text words = text_over(memory, sizeof memory);
  text_printf(&words, "{'descr': '%s', 'fortran_order': False, 'shape': (", vx_numbers[shape->dtype].numpy);
  for (int d = 0; d < shape->rank; d++)
    text_printf(&words, "%s%lld%s", d ? " " : "", (long long)shape->dims[d], d && d == shape->rank - 1 ? "" : ",");
  text_put(&words, "), }");
  size_t rest = NPY_HEADER - sizeof magic - 2;
  text_append(out, magic, sizeof magic);
  bytes_put(out, rest, 2);
  out->cut = out->cut || !text_complete(&words);
  text_put(out, memory);
  text_printf(out, "%*s\n", (int)(rest - words.length - 1), "");
}

bool npz_write(const struct answer *answer, const struct vx_layout *layout, const char *tensors, struct text *out,
               struct error *error) {
  struct zip zip;
  (void)error;
  zip_begin(&zip, out, answer->stop);
  for (int tensor = 0; tensor < VX_TENSOR_COUNT; tensor++) {
    if (!(layout->tensors & VX_TENSOR_BIT(tensor))) continue;
    zip_open(&zip, vx_tensors[tensor].name, ".npy");
    put_npy_header(out, &layout->shape[tensor]);
    bytes_append(out, answer->stop, tensors ? tensors + layout->offset[tensor] : NULL, layout->shape[tensor].bytes);
    zip_close(&zip);
  }
  zip_open(&zip, "metadata", ".json");
  answer_metadata(answer, false, out);
  zip_close(&zip);
  zip_end(&zip);
  return true;
}
