// See tensor_file.h.
#include "api/wire/tensor_file.h"

#include <stdint.h>
#include <stdio.h>

enum { LENGTH_PREFIX = 8 };

static bool refuse_file(const char *what, const char *reason, struct error *error) {
  return error_refuse(error, ERROR_BAD_BODY, NULL, "%s is not a safetensors file: %s", what, reason);
}

static bool read_length(const char *what, const char *bytes, size_t size, size_t *length, struct error *error) {
  uint64_t header = 0;
  if (size < LENGTH_PREFIX) return refuse_file(what, "it has less than 8 bytes", error);
  for (int i = 0; i < LENGTH_PREFIX; i++) header |= (uint64_t)(unsigned char)bytes[i] << (8 * i);
  if (header > size - LENGTH_PREFIX) {
    char reason[64];
    snprintf(reason, sizeof reason, "its header would be longer than %s", what);
    return refuse_file(what, reason, error);
  }
  *length = (size_t)header;
  return header <= TENSORS_HEADER_MAX ||
         error_refuse(error, ERROR_BAD_BODY, NULL, "the header of the safetensors file has %llu bytes; allowed: %d",
                      (unsigned long long)header, TENSORS_HEADER_MAX);
}

bool tensor_file_open(const char *what, char *bytes, size_t size, struct tensor_file *file, struct error *error) {
  size_t header = 0;
  if (!read_length(what, bytes, size, &header, error)) return false;
  char *data = bytes + LENGTH_PREFIX + header;
  *file = (struct tensor_file){.data = data, .data_bytes = size - LENGTH_PREFIX - header};
  if (!json_open_sent(&file->header, "the header of the safetensors file", bytes + LENGTH_PREFIX, header, NULL, error))
    return false;
  if (json_is_object(file->header.root)) return true;
  tensor_file_close(file);
  return refuse_file(what, "its header is not a JSON object", error);
}

void tensor_file_close(struct tensor_file *file) { json_close(&file->header); }

static bool read_place(const char *name, const json_t *offsets, const struct tensor_file *file, size_t bytes,
                       struct vx_input *input, struct error *error) {
  const json_t *first = json_array_get(offsets, 0), *last = json_array_get(offsets, 1);
  json_int_t begin = json_integer_value(first), end = json_integer_value(last);
  if (json_array_size(offsets) != 2 || !json_is_integer(first) || !json_is_integer(last) || begin < 0 || end < begin)
    return error_refuse(error, ERROR_BAD_BODY, NULL,
                        "tensor %.64s: its data_offsets are not two whole numbers [begin, end] with 0 <= begin <= end",
                        name);
  if ((uint64_t)end > file->data_bytes)
    return error_refuse(error, ERROR_BAD_BODY, NULL, "tensor %.64s ends at byte %lld of the data, which has %zu bytes",
                        name, (long long)end, file->data_bytes);
  if ((uint64_t)(end - begin) != bytes)
    return error_refuse(error, ERROR_BAD_BODY, NULL, "tensor %.64s has %lld bytes; its shape has %zu", name,
                        (long long)(end - begin), bytes);
  if ((size_t)begin % vx_dtype_size(input->dtype) != 0)
    return error_refuse(error, ERROR_BAD_BODY, NULL,
                        "tensor %.64s begins at byte %lld of the data; allowed: a multiple of %zu", name,
                        (long long)begin, vx_dtype_size(input->dtype));
  input->data = file->data + begin;
  return true;
}

bool tensor_file_take(const struct tensor_file *file, const struct vx_input_row *row, const json_t *entry,
                      struct vx_input *input, struct error *error) {
  static const struct tensor_words words = {"tensor", "dtype", vx_dtype_name};
  size_t bytes;
  return input_describe(row, &words, json_string_value(json_object_get(entry, "dtype")),
                        json_object_get(entry, "shape"), input, &bytes, error) &&
         read_place(row->name, json_object_get(entry, "data_offsets"), file, bytes, input, error);
}
