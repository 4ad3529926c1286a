// Inference requests of the KServe v2 protocol, by which Triton's clients speak too: a JSON object, and behind it the
// tensors that are sent as bytes ("binary data"). Defined by the Open Inference Protocol and Triton's extension
// binary_tensor_data.
//
// infer_read makes a job's request and its points of a body; infer_answer.h has the answers. Any thread; a struct
// belongs to its caller.
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
  const char *model;       // that the path names; NULL: the job did not come by this protocol
  bool preset;             // the model is a preset, not an operation
  int64_t head_bytes;      // of the body's JSON, in front of its tensors; -1 = all of it
  char id[INFER_ID_SIZE];  // the client's; "" = none
  uint32_t binary;         // VX_TENSOR_BITs of the outputs to answer as bytes
  size_t answer_head;      // bytes of the answer's JSON, in front of its tensors; 0 = all of it
};

// What was read of a body. It points into the body.
struct infer_body {
  json_t *root;        // NULL: there is no JSON
  const json_t *data;  // the points as JSON, if they came so
  const char *points;  // [rows, columns], else
  int64_t rows, columns;
};

// Bytes of memory that reading the JSON of a body takes, at most.
size_t infer_json_cost(const struct infer *infer, const char *bytes, size_t size);

// Reads a body into `request`, which the model has set, and into `infer`. The request is finished then; it is not split
// yet. False with a problem. Either way infer_end follows.
VX_WARN_UNUSED bool infer_read(struct infer_body *body, const char *bytes, size_t size, struct infer *infer,
                               struct job_request *request, struct problem *problem);
// Writes points that came as JSON: [rows, columns] float32. False with a problem.
VX_WARN_UNUSED bool infer_write_rows(const struct infer_body *body, float *rows, struct problem *problem);
void infer_end(struct infer_body *body);

#endif
