// Opens a safetensors file (safetensors.h) and finds its tensors. Everything here points into the caller's bytes. Any
// thread.
#ifndef VOXELD_TENSOR_FILE_H
#define VOXELD_TENSOR_FILE_H

#include "api/base/json.h"
#include "api/wire/inputs.h"

enum { TENSORS_HEADER_MAX = 64 * 1024 };  // bytes of JSON

struct tensor_file {
  struct json_document header;  // a member for each tensor; tensor_file_close releases it
  char *data;                   // after the header
  size_t data_bytes;
};

// `what` names the file in errors, such as "the body". False with an error; nothing is held then.
VX_WARN_UNUSED bool tensor_file_open(const char *what, char *bytes, size_t size, struct tensor_file *file,
                                     struct error *error);
void tensor_file_close(struct tensor_file *file);

// The tensor of an entry of the header. Checks its type, but not its shape, against `row`, and that its data begins a
// multiple of the type's size after file->data.
VX_WARN_UNUSED bool tensor_file_take(const struct tensor_file *file, const struct vx_input_row *row,
                                     const json_t *entry, struct vx_input *input, struct error *error);

#endif
