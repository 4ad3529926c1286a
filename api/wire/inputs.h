// Binds the tensors of a body to the inputs of its operation, by name, type and shape, as the operation's row in
// kernels/ops.h has them. Bodies that are safetensors files and inference requests do that alike. Any thread.
#ifndef VOXELD_INPUTS_H
#define VOXELD_INPUTS_H

#include <jansson.h>

#include "api/ops/ops.h"

// The words of a kind of body.
struct tensor_words {
  const char *tensor, *type;  // what it calls a tensor, and its type
  const char *(*spell)(enum vx_dtype dtype);
};

// The number of the operation's input of that name; -1 if there is none.
int input_find(const struct vx_operation *operation, const char *name);
// Refuses a name that no input has. `also`: another that is allowed, or NULL. Returns false.
bool input_refuse(const struct vx_operation *operation, const char *name, const char *also, struct error *error);

// Reads the type and the shape of an input into `input`, which gets no data. `*bytes`: of its values. False with a
// problem.
VX_WARN_UNUSED bool input_describe(const struct vx_input_row *row, const struct tensor_words *words, const char *dtype,
                                   const json_t *shape, struct vx_input *input, size_t *bytes, struct error *error);

// Whether the request has all inputs that its operation needs. False with an error.
VX_WARN_UNUSED bool inputs_complete(const struct job_request *request, struct error *error);

// Takes columns and type of the points from the input `points`. `fixed`: the request's columns stay, which they do also
// if a parameter gave them. Nothing is done for operations on something else. False with an error.
VX_WARN_UNUSED bool inputs_take_points(struct job_request *request, bool fixed, struct error *error);

// Whether the input lies where kernels.h wants it.
bool input_is_aligned(const struct job_request *request, int number);

#endif
