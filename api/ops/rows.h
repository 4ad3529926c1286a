// Rows of the parameter tables that several operations have, and what their files are made with.
#ifndef VOXELD_API_ROWS_H
#define VOXELD_API_ROWS_H

#include "api/ops/ops.h"
#include "api/params/values.h"

#define FIELD(member) offsetof(struct job_request, member)

extern const char *const dtype_words[];  // VX_FLOAT32, VX_FLOAT16

extern const struct param param_preset, param_num_features, param_dtype, param_point_counts, param_timeout_ms;

// The row `outputs` of an operation that can write these tensors.
#define PARAM_OUTPUTS(allowed_tensors, text)                                                                           \
  {                                                                                                                    \
    .name = "outputs", .type = &value_tensors, .offset = FIELD(outputs), .second = FIELD(job.tensors),                 \
    .most = (allowed_tensors), .doc = "which tensors to return; without it " text,                                     \
  }

// The table must leave every row a place in job_request.given; the NULL at its end counts too.
#define PARAM_ROWS_FIT(rows) _Static_assert(sizeof(rows) / sizeof *(rows) <= PARAMS_MAX + 1, "given has a place a row")

#endif
