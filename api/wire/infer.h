// Inference requests of the KServe v2 protocol, by which Triton's clients speak too: a JSON object, and behind it the
// tensors that are sent as bytes ("binary data"). Defined by the Open Inference Protocol and Triton's extension
// binary_tensor_data.
//
// infer_read makes a job's request of a body; infer_inputs.h has its inputs, infer_answer.h the answers. Any thread; a
// struct belongs to its caller.
#ifndef VOXELD_INFER_H
#define VOXELD_INFER_H

#include <jansson.h>

#include "api/ops/ops.h"

enum {
  INFER_JSON_MAX = 16 << 20,  // bytes of JSON in a body; tensors that are larger are to be sent as bytes
  INFER_ID_SIZE = 128,
};

// A request by this protocol, beside the job's parameters.
struct infer {
  const char *model;                           // that the path names; NULL: the job did not come by this protocol
  bool preset;                                 // the model is a preset, not an operation
  int64_t head_bytes;                          // of the body's JSON, in front of its tensors; -1 = all of it
  char id[INFER_ID_SIZE];                      // the client's; "" = none
  uint32_t binary;                             // VX_TENSOR_BITs of the outputs to answer as bytes
  uint32_t shared;                             // of them, those that go to a region of shared memory
  size_t answer_head;                          // bytes of the answer's JSON, in front of its tensors; 0 = all of it
  struct region_ref regions[VX_TENSOR_COUNT];  // of the outputs in `shared`
};

// An input as a request describes it. Its values are in one of three places.
struct infer_input {
  struct vx_input tensor;    // type and shape, without data; rank 0: it is not given
  size_t bytes;              // of its values
  const json_t *json;        // they are JSON,
  const char *binary;        // or bytes of the body,
  struct region_ref region;  // or in shared memory
};

// What was read of a body. It points into the body.
struct infer_body {
  json_t *root;                              // NULL: there is no JSON
  struct infer_input inputs[VX_MAX_INPUTS];  // of the operation
  struct infer_input counts;                 // the rows of each cloud, which are a parameter of the operation
};

// The client's shared memory: copies a part of it. False with a problem.
struct infer_memory {
  bool (*read)(void *cls, const struct region_ref *ref, char *out, struct problem *problem);
  void *cls;
};

// Bytes of JSON in a body of `size` bytes.
size_t infer_json_bytes(const struct infer *infer, size_t size);

// Reads a body into `request`, which the model has set, and into `infer`. The request is finished then, and its inputs
// have types and shapes; they have no data (infer_inputs.h), and the request is not split yet. False with a problem.
// Either way infer_end follows.
VX_WARN_UNUSED bool infer_read(struct infer_body *body, const char *bytes, size_t size,
                               const struct infer_memory *memory, struct infer *infer, struct job_request *request,
                               struct problem *problem);
void infer_end(struct infer_body *body);

#endif
