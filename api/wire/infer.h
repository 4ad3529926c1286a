// Inference requests of the KServe v2 protocol, which Triton's clients use too: a JSON object, followed by the tensors
// that are sent as bytes ("binary data"). The Open Inference Protocol and Triton's extension binary_tensor_data define
// them.
//
// infer_read makes a job's request from a body; infer_inputs.h has the inputs, infer_answer.h the answers. Any thread.
// A struct belongs to its caller.
#ifndef VOXELD_INFER_H
#define VOXELD_INFER_H

#include "api/base/json.h"
#include "api/wire/infer_inputs.h"

enum {
  INFER_ID_SIZE = 128,
};

// What a request of this protocol has besides the job's parameters.
struct infer {
  const char *model;                           // named by the path; NULL if the request did not use this protocol
  const char *version;                         // of the model
  bool preset;                                 // the model is a preset, not an operation
  int64_t head_bytes;                          // bytes of the body's JSON, before the tensors; -1 = the whole body
  char id[INFER_ID_SIZE];                      // the client's; "" = none
  vx_tensor_set binary;                        // the outputs to answer as bytes
  vx_tensor_set shared;                        // the outputs in `binary` that go to a region of shared memory
  size_t answer_head;                          // bytes of the answer's JSON, before the tensors; 0 = the whole answer
  struct region_ref regions[VX_TENSOR_COUNT];  // the regions of the outputs in `shared`
};

// What was read from a body. It points into the body.
struct infer_body {
  struct json_document json;  // closed if there is none
  struct infer_inputs inputs;
};

// Bytes of JSON in a body of `size` bytes.
size_t infer_json_bytes(const struct infer *infer, size_t size);

// Reads a body into `request`, which the model has set, and into `infer`. Then the request is finished, and its inputs
// have types and shapes. The inputs have no data yet (infer_inputs.h), and the request is not split yet. False with an
// error. Call infer_end in either case.
VX_WARN_UNUSED bool infer_read(struct infer_body *body, const char *bytes, size_t size,
                               const struct infer_memory *memory, struct infer *infer, struct job_request *request,
                               struct error *error);
void infer_end(struct infer_body *body);

#endif
