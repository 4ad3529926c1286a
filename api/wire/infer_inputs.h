// The inputs of an inference request: types, shapes, and where their values are. Any thread; nothing here allocates.
#ifndef VOXELD_INFER_INPUTS_H
#define VOXELD_INFER_INPUTS_H

#include <jansson.h>

#include "api/ops/ops.h"

// The values are in JSON, in the body or in shared memory.
struct infer_input {
  struct vx_input tensor;    // without data; rank 0 = not given
  size_t bytes;              // of the values
  const json_t *json;        // the values, or NULL
  const char *binary;        // the values in the body, or NULL
  struct region_ref region;  // of the values; its name is "" for other places
};

struct cloud_loss;

struct infer_inputs {
  struct infer_input list[VX_MAX_INPUTS];  // of the operation
  struct infer_input counts;               // rows of each cloud: a parameter of the operation
};

// The client's shared memory. `read` copies a part to `out`; false with an error. If `stop` is stopped, reading may
// fail with any error.
struct infer_memory {
  bool (*read)(void *cls, const struct region_ref *ref, char *out, struct error *error);
  void *cls;
  struct vx_stop *stop;
};

// Reads the list of inputs. `bytes` [size] follow the JSON; the inputs take them in order, and none may be left.
VX_WARN_UNUSED bool infer_inputs_read(struct infer_inputs *inputs, const json_t *list,
                                      const struct job_request *request, const char *bytes, size_t size,
                                      struct error *error);

// Copies the values.
VX_WARN_UNUSED bool infer_input_copy(const struct infer_input *input, const char *name,
                                     const struct infer_memory *memory, char *out, struct error *error);

// Points the request's inputs into the body. False if values are elsewhere, or not aligned as kernels.h requires.
VX_WARN_UNUSED bool infer_inputs_bind(const struct infer_inputs *inputs, struct job_request *request);
// The region of the only input. NULL if there are more inputs, or the input is not in shared memory.
const struct region_ref *infer_inputs_shared(const struct infer_inputs *inputs);
// Bytes of memory for infer_inputs_copy; SIZE_MAX if there are too many.
size_t infer_inputs_bytes(const struct infer_inputs *inputs);
// Copies all values to `out`, aligned to VX_TENSOR_ALIGNMENT, and points the request's inputs there.
VX_WARN_UNUSED bool infer_inputs_copy(const struct infer_inputs *inputs, const struct infer_memory *memory, char *out,
                                      struct job_request *request, struct error *error);
// Notes how far rounding to float32 moved coordinates in JSON.
void infer_inputs_loss(const struct infer_inputs *inputs, const struct job_request *request, struct vx_stop *stop,
                       struct cloud_loss *loss);

#endif
