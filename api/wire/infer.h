// Inference requests of the KServe v2 protocol, by which Triton's clients speak too: a JSON object, and behind it the
// tensors that are sent as bytes ("binary data"). Defined by the Open Inference Protocol and Triton's extension
// binary_tensor_data.
//
// infer_read makes a job's request of a body; infer_inputs.h has its inputs, infer_answer.h the answers. Any thread; a
// struct belongs to its caller.
#ifndef VOXELD_INFER_H
#define VOXELD_INFER_H

#include "api/base/json.h"
#include "api/wire/infer_inputs.h"

enum {
  INFER_ID_SIZE = 128,
};

// A request by this protocol, beside the job's parameters.
struct infer {
  const char *model;                           // that the path names; NULL: the job did not come by this protocol
  const char *version;                         // of the model
  bool preset;                                 // the model is a preset, not an operation
  int64_t head_bytes;                          // of the body's JSON, in front of its tensors; -1 = all of it
  char id[INFER_ID_SIZE];                      // the client's; "" = none
  vx_tensor_set binary;                        // the outputs to answer as bytes
  vx_tensor_set shared;                        // of them, those that go to a region of shared memory
  size_t answer_head;                          // bytes of the answer's JSON, in front of its tensors; 0 = all of it
  struct region_ref regions[VX_TENSOR_COUNT];  // of the outputs in `shared`
};

// What was read of a body. It points into the body.
struct infer_body {
  struct json_document json;  // closed: there is none
  struct infer_inputs inputs;
};

// Bytes of JSON in a body of `size` bytes.
size_t infer_json_bytes(const struct infer *infer, size_t size);

// Reads a body into `request`, which the model has set, and into `infer`. The request is finished then, and its inputs
// have types and shapes; they have no data (infer_inputs.h), and the request is not split yet. False with an error.
// Either way infer_end follows.
VX_WARN_UNUSED bool infer_read(struct infer_body *body, const char *bytes, size_t size,
                               const struct infer_memory *memory, struct infer *infer, struct job_request *request,
                               struct error *error);
void infer_end(struct infer_body *body);

#endif
