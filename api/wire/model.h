// What clients of the KServe v2 protocol see of a model: its metadata, and its config in Triton's form.
//
// A model is an operation, with its defaults or with the parameters of a preset. The inputs are the operation's inputs
// and, optionally, the counts of each cloud's rows. The outputs are the tensors of an answer to a request that names no
// outputs. Any thread; nothing here allocates, except to read JSON.
#ifndef VOXELD_WIRE_MODEL_H
#define VOXELD_WIRE_MODEL_H

#include "api/base/problem.h"
#include "api/base/text.h"
#include "api/ops/ops.h"

#define MODEL_VERSION "1"  // the version of all models that do not have their own

struct model {
  const char *name;
  const struct job_request *request;  // the request without a query
  bool preset;                        // a preset has set the request; else the model is an operation or a detector
  const char *fault;                  // why the model does not serve; NULL if it serves
  const char *version;                // the model has no other version
  const char *refused;                // why newer files of its folder do not serve; NULL if there are no newer files
  const char *refused_version;        // the version of the newer files; "" if it could not be read
};

void model_write_metadata(const struct model *model, struct text *out);
void model_write_config(const struct model *model, struct text *out);

// Checks that the model serves. False with an error that says why not.
VX_WARN_UNUSED bool model_serves(const struct model *model, struct error *error);

// The type as KServe's protocol spells it.
const char *model_datatype(enum vx_dtype dtype);

// Reads the body of a request for the list of models, which may be empty. Sets `ready` if the client wants only models
// that are ready. False with an error.
VX_WARN_UNUSED bool model_read_index(const char *body, size_t size, bool *ready, struct error *error);

#endif
