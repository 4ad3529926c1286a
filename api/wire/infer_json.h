// The JSON of inference requests: what it costs to read, and numbers in it. Any thread.
#ifndef VOXELD_INFER_JSON_H
#define VOXELD_INFER_JSON_H

#include <jansson.h>

#include "kernels/kernels.h"

enum { INFER_JSON_MAX = 16 << 20 };  // bytes of JSON in a body; larger tensors are to be sent as bytes

// Bytes of memory that reading `size` bytes of JSON takes, at most. Of more than that many nothing is read.
size_t infer_json_cost(const char *bytes, size_t size);

// Writes a list of numbers, which may be nested as the shape is, as `count` values of the tensor's type. False if it is
// no list of that many numbers which the type has, or the job is stopped. No list has float16.
VX_WARN_UNUSED bool infer_write_numbers(const json_t *list, const struct vx_input *tensor, size_t count,
                                        struct vx_stop *stop, char *out);

#endif
