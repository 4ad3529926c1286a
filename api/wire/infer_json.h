// The JSON of inference requests: what it costs to read, and points in it. Any thread.
#ifndef VOXELD_INFER_JSON_H
#define VOXELD_INFER_JSON_H

#include "api/wire/infer.h"

// Bytes of memory that reading the JSON of a body takes, at most.
size_t infer_json_cost(const struct infer *infer, const char *bytes, size_t size);

// Writes points that came as JSON: [rows, columns] float32. False with a problem.
VX_WARN_UNUSED bool infer_write_rows(const struct infer_body *body, float *rows, struct problem *problem);

#endif
