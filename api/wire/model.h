// What clients of KServe v2 see of a model: its metadata, and its config in Triton's form.
//
// A model is an operation with its defaults or a preset, a detector, or a detector's backbone. Inputs: the operation's,
// and the counts of each cloud's rows. Outputs: the tensors of an answer to a request that names none. Any thread;
// nothing here allocates, except to read JSON.
#ifndef VOXELD_WIRE_MODEL_H
#define VOXELD_WIRE_MODEL_H

#include "api/base/problem.h"
#include "api/base/text.h"
#include "api/ops/ops.h"

#define MODEL_VERSION "1"  // of models without a version of their own

struct model {
  const char *name;
  const struct job_request *request;  // without a query
  bool preset;                        // a preset has set the request; else an operation or a detector
  const char *fault;                  // why the model does not serve; NULL = it serves
  const char *version;                // the only one
  const char *refused;                // why newer files of its folder do not serve; NULL = there are none
  const char *refused_version;        // of these files; "" = it could not be read
};

void model_write_metadata(const struct model *model, struct text *out);
void model_write_config(const struct model *model, struct text *out);

// Checks that the model serves.
VX_WARN_UNUSED bool model_serves(const struct model *model, struct error *error);

// As KServe's protocol spells it.
const char *model_datatype(enum vx_dtype dtype);

// Reads the body of a request for the list of models; it may be empty. `ready`: list only models that are ready.
VX_WARN_UNUSED bool model_read_index(const char *body, size_t size, bool *ready, struct error *error);

#endif
