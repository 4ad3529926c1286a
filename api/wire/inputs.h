// Binds the tensors of a body to the inputs of its operation, by the names, types and shapes of the operation's row in
// kernels/ops.h. Both safetensors bodies and inference requests use these functions. Any thread.
#ifndef VOXELD_INPUTS_H
#define VOXELD_INPUTS_H

#include <jansson.h>

#include "api/ops/ops.h"

// How errors name things in one kind of body: a safetensors body or an inference request.
struct tensor_words {
  const char *tensor, *type;  // what a tensor and a type are called
  const char *(*spell)(enum vx_dtype dtype);
};

// The number of the operation's input of that name; -1 if there is none.
int input_find(const struct vx_operation *operation, const char *name);
// Refuses a name that no input has. `also` is a further name that is allowed, or NULL. Returns false.
bool input_refuse(const struct vx_operation *operation, const char *name, const char *also, struct error *error);

// The row of an input as clients send it: points may have any type, because they are widened.
struct vx_input_row input_row(const struct vx_operation *operation, int number);

// Reads the type and the shape of an input into `input`, which gets no data. Sets `*bytes` to the bytes of the values.
// False with an error.
VX_WARN_UNUSED bool input_describe(const struct vx_input_row *row, const struct tensor_words *words, const char *dtype,
                                   const json_t *shape, struct vx_input *input, size_t *bytes, struct error *error);

// Checks that the request has all inputs that its operation needs. False with an error.
VX_WARN_UNUSED bool inputs_complete(const struct job_request *request, struct error *error);

// Takes the columns and the type of the points from the input `points`. The request's own columns stay if `fixed` is
// true, or if a parameter gave them. Does nothing for operations without points. False with an error.
VX_WARN_UNUSED bool inputs_take_points(struct job_request *request, bool fixed, struct error *error);

// Whether the input is aligned as kernels.h requires.
bool input_is_aligned(const struct job_request *request, int number);

#endif
