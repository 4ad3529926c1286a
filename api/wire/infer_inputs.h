// The inputs of an inference request: their description in the JSON, and where their values are.
//
// Any thread; nothing here allocates.
#ifndef VOXELD_INFER_INPUTS_H
#define VOXELD_INFER_INPUTS_H

#include <jansson.h>

#include "api/ops/ops.h"

// An input as a request describes it. Its values are in one of three places: JSON, the body, or shared memory.
struct infer_input {
  struct vx_input tensor;    // type and shape, without data; rank 0 if the input is not given
  size_t bytes;              // bytes of the values
  const json_t *json;        // the values as JSON,
  const char *binary;        // or as bytes of the body,
  struct region_ref region;  // or in shared memory
};

struct cloud_loss;

struct infer_inputs {
  struct infer_input list[VX_MAX_INPUTS];  // of the operation
  struct infer_input counts;               // the rows of each cloud, which are a parameter of the operation
};

// Access to the client's shared memory. `read` copies the part `ref` to `out`; false with an error. The reader of the
// request checks `stop`; if stopped, the reader may fail with any error.
struct infer_memory {
  bool (*read)(void *cls, const struct region_ref *ref, char *out, struct error *error);
  void *cls;
  struct vx_stop *stop;
};

// Reads the list of inputs: the inputs of the request's operation, and the parameter that counts rows. The inputs take
// `bytes`, which follow the JSON, in order; no byte may be left. False with an error.
VX_WARN_UNUSED bool infer_inputs_read(struct infer_inputs *inputs, const json_t *list,
                                      const struct job_request *request, const char *bytes, size_t size,
                                      struct error *error);

// Copies the values of an input. False with an error.
VX_WARN_UNUSED bool infer_input_copy(const struct infer_input *input, const char *name,
                                     const struct infer_memory *memory, char *out, struct error *error);

// Points the request's inputs to their values in the body. False if some values are in JSON or in shared memory, or not
// aligned as kernels.h requires.
VX_WARN_UNUSED bool infer_inputs_bind(const struct infer_inputs *inputs, struct job_request *request);
// The part of shared memory with the first input, if it is the only input. Else NULL.
const struct region_ref *infer_inputs_shared(const struct infer_inputs *inputs);
// Bytes of memory for a copy of all inputs; SIZE_MAX if there are too many.
size_t infer_inputs_bytes(const struct infer_inputs *inputs);
// Copies the values of the inputs to `out`, which is aligned to VX_TENSOR_ALIGNMENT, and points the request's inputs to
// the copies. False with an error.
VX_WARN_UNUSED bool infer_inputs_copy(const struct infer_inputs *inputs, const struct infer_memory *memory, char *out,
                                      struct job_request *request, struct error *error);
// How far rounding to float32 moved the coordinates in JSON.
void infer_inputs_loss(const struct infer_inputs *inputs, const struct job_request *request, struct vx_stop *stop,
                       struct cloud_loss *loss);

#endif
