// Opens a safetensors file and finds the bytes of its tensors.
//
// Defined by huggingface/safetensors: 8 bytes with the length of the header, the header, a JSON object, and behind it
// the tensors' bytes. Everything here points into the caller's bytes. Any thread.
#ifndef VOXELD_TENSOR_FILE_H
#define VOXELD_TENSOR_FILE_H

#include "api/base/json.h"
#include "api/wire/inputs.h"

enum { TENSORS_HEADER_MAX = 64 * 1024 };  // bytes of JSON

struct tensor_file {
  struct json_document header;  // an object with a member for each tensor; tensor_file_close releases it
  char *data;                   // behind the header
  size_t data_bytes;
};

// `what` it is, as problems call it: "the body". False with an error, and nothing is held then.
VX_WARN_UNUSED bool tensor_file_open(const char *what, char *bytes, size_t size, struct tensor_file *file,
                                     struct error *error);
void tensor_file_close(struct tensor_file *file);

// Describes the tensor of that entry of the header, with its data, as `row` wants it: its type, not its shape. Its data
// is at a multiple of its type's size from the first tensor's. False with an error.
VX_WARN_UNUSED bool tensor_file_take(const struct tensor_file *file, const struct vx_input_row *row,
                                     const json_t *entry, struct vx_input *input, struct error *error);

#endif
