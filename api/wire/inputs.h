// Binds the tensors of a safetensors body or of an inference request to the inputs of an operation, as its row in
// kernels/ops.h says. Any thread.
#ifndef VOXELD_INPUTS_H
#define VOXELD_INPUTS_H

#include <jansson.h>

#include "api/ops/ops.h"

// Words of errors, for safetensors or for inference requests.
struct tensor_words {
  const char *tensor, *type;  // "tensor" or "input"; "dtype" or "datatype"
  const char *(*spell)(enum vx_dtype dtype);
};

// The number of the named input, or -1.
int input_find(const struct vx_operation *operation, const char *name);
// Refuses an unknown name. `also`: another allowed name, or NULL. Returns false.
bool input_refuse(const struct vx_operation *operation, const char *name, const char *also, struct error *error);

// The row of an input. Points may have any type, since they are widened.
struct vx_input_row input_row(const struct vx_operation *operation, int number);

// Reads type and shape into `input`, without data. `*bytes`: of the values.
VX_WARN_UNUSED bool input_describe(const struct vx_input_row *row, const struct tensor_words *words, const char *dtype,
                                   const json_t *shape, struct vx_input *input, size_t *bytes, struct error *error);

// Checks that all inputs are there that the operation needs.
VX_WARN_UNUSED bool inputs_complete(const struct job_request *request, struct error *error);

// Takes number and type of the columns from the input `points`. If `fixed`, or if a parameter gave the number of
// columns, the input must have as many columns as the request says. Does nothing for operations without points.
VX_WARN_UNUSED bool inputs_take_points(struct job_request *request, bool fixed, struct error *error);

// As kernels.h requires.
bool input_is_aligned(const struct job_request *request, int number);

#endif
