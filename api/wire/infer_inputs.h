// The inputs of an inference request: what its JSON says of them, and where their values are.
//
// Any thread; nothing here allocates.
#ifndef VOXELD_INFER_INPUTS_H
#define VOXELD_INFER_INPUTS_H

#include "api/wire/infer.h"

// Reads the list of inputs: those of the request's operation, and the parameter that counts rows. `bytes`, which stand
// behind the JSON, are taken in the order of the inputs; none may be left. False with a problem.
VX_WARN_UNUSED bool infer_inputs_read(struct infer_body *body, const json_t *list, const struct job_request *request,
                                      const char *bytes, size_t size, struct problem *problem);

// Copies the values of an input. False with a problem.
VX_WARN_UNUSED bool infer_input_copy(const struct infer_input *input, const char *name,
                                     const struct infer_memory *memory, char *out, struct problem *problem);

// Points the request's inputs to their values in the body. False if some are not there, or not aligned as kernels.h
// wants them.
VX_WARN_UNUSED bool infer_inputs_bind(const struct infer_body *body, struct job_request *request);
// Bytes of memory for a copy of all inputs; SIZE_MAX if there are too many.
size_t infer_inputs_bytes(const struct infer_body *body);
// Points the request's inputs to a copy of their values in `out`, which is aligned to VX_TENSOR_ALIGNMENT. False with a
// problem.
VX_WARN_UNUSED bool infer_inputs_copy(const struct infer_body *body, const struct infer_memory *memory, char *out,
                                      struct job_request *request, struct problem *problem);

#endif
