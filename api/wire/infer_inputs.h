// The inputs of an inference request: what its JSON says of them, and where their values are.
//
// Any thread; nothing here allocates.
#ifndef VOXELD_INFER_INPUTS_H
#define VOXELD_INFER_INPUTS_H

#include <jansson.h>

#include "api/ops/ops.h"

// An input as a request describes it. Its values are in one of three places.
struct infer_input {
  struct vx_input tensor;    // type and shape, without data; rank 0: it is not given
  size_t bytes;              // of its values
  const json_t *json;        // they are JSON,
  const char *binary;        // or bytes of the body,
  struct region_ref region;  // or in shared memory
};

struct infer_inputs {
  struct infer_input list[VX_MAX_INPUTS];  // of the operation
  struct infer_input counts;               // the rows of each cloud, which are a parameter of the operation
};

// The client's shared memory: copies a part of it. False with an error. What reads the request asks `stop`, and then
// may fail with any problem.
struct infer_memory {
  bool (*read)(void *cls, const struct region_ref *ref, char *out, struct error *error);
  void *cls;
  struct vx_stop *stop;
};

// Reads the list of inputs: those of the request's operation, and the parameter that counts rows. `bytes`, which stand
// behind the JSON, are taken in the order of the inputs; none may be left. False with an error.
VX_WARN_UNUSED bool infer_inputs_read(struct infer_inputs *inputs, const json_t *list,
                                      const struct job_request *request, const char *bytes, size_t size,
                                      struct error *error);

// Copies the values of an input. False with an error.
VX_WARN_UNUSED bool infer_input_copy(const struct infer_input *input, const char *name,
                                     const struct infer_memory *memory, char *out, struct error *error);

// Points the request's inputs to their values in the body. False if some are not there, or not aligned as kernels.h
// wants them.
VX_WARN_UNUSED bool infer_inputs_bind(const struct infer_inputs *inputs, struct job_request *request);
// The part of shared memory that the first input is, if it is the only one. NULL if it is not.
const struct region_ref *infer_inputs_shared(const struct infer_inputs *inputs);
// Bytes of memory for a copy of all inputs; SIZE_MAX if there are too many.
size_t infer_inputs_bytes(const struct infer_inputs *inputs);
// Points the request's inputs to a copy of their values in `out`, which is aligned to VX_TENSOR_ALIGNMENT. False with a
// problem.
VX_WARN_UNUSED bool infer_inputs_copy(const struct infer_inputs *inputs, const struct infer_memory *memory, char *out,
                                      struct job_request *request, struct error *error);

#endif
