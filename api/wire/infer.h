// Inference requests of KServe v2, also used by Triton's clients: a JSON object, then the tensors that are sent as
// bytes ("binary data"). See the Open Inference Protocol and Triton's extension binary_tensor_data.
//
// infer_inputs.h has the inputs, infer_answer.h the answers. Any thread. A struct belongs to its caller.
#ifndef VOXELD_INFER_H
#define VOXELD_INFER_H

#include "api/base/json.h"
#include "api/wire/infer_inputs.h"

enum {
  INFER_ID_SIZE = 128,
};

// Members of a request besides the job's parameters.
struct infer {
  const char *model;                           // named by the path; NULL = the request is not of this protocol
  const char *version;                         // of the model
  bool preset;                                 // the model is a preset, not an operation
  int64_t head_bytes;                          // bytes of JSON in the body; -1 = the whole body
  char id[INFER_ID_SIZE];                      // the client's; "" = none
  vx_tensor_set binary;                        // outputs that are answered as bytes
  vx_tensor_set shared;                        // outputs of `binary` that go to shared memory
  size_t answer_head;                          // bytes of JSON in the answer; 0 = the whole answer
  struct region_ref regions[VX_TENSOR_COUNT];  // of the outputs in `shared`
};

// Points into the body.
struct infer_body {
  struct json_document json;  // closed if there is none
  struct infer_inputs inputs;
};

// Bytes of JSON in a body of `size` bytes.
size_t infer_json_bytes(const struct infer *infer, size_t size);

// Reads a body into `infer` and `request`, which has the values of the model. The request is then finished, not split,
// and its inputs have types and shapes, but no data (infer_inputs.h). Call infer_end in either case.
VX_WARN_UNUSED bool infer_read(struct infer_body *body, const char *bytes, size_t size,
                               const struct infer_memory *memory, struct infer *infer, struct job_request *request,
                               struct error *error);
void infer_end(struct infer_body *body);

#endif
