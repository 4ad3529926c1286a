// What clients of the KServe v2 protocol are told of a model: its metadata, and its config as Triton has it.
//
// A model is an operation, with its defaults or with the parameters of a preset. Its inputs are those of the operation
// and, optionally, the counts of each cloud's rows; its outputs are the tensors of an answer to a request that names
// none. Any thread; nothing here allocates, except what reads JSON.
#ifndef VOXELD_WIRE_MODEL_H
#define VOXELD_WIRE_MODEL_H

#include "api/base/problem.h"
#include "api/base/text.h"
#include "api/ops/ops.h"

#define MODEL_VERSION "1"  // of all models but those that say another

struct model {
  const char *name;
  const struct job_request *request;  // without parameters
  bool preset;                        // a preset has set the request; else it is the operation of that name, or detects
  const char *fault;                  // why it does not serve; NULL if it does
  const char *version;                // the only one
  const char *refused;                // why newer files of its folder do not serve in its place; NULL if there are none
  const char *refused_version;        // theirs; "" if it could not be read
};

void model_write_metadata(const struct model *model, struct text *out);
void model_write_config(const struct model *model, struct text *out);

// Whether the model serves. False with an error that says why not.
VX_WARN_UNUSED bool model_serves(const struct model *model, struct error *error);
// The refusal of a model that does not exist, or not in that version; "" = any. Returns false.
bool model_missing(const char *name, const char *version, struct error *error);

// The type as KServe's protocol spells it.
const char *model_datatype(enum vx_dtype dtype);

// Reads the body of a request for the list of models, which may be empty: whether only models that are ready are
// wanted. False with an error.
VX_WARN_UNUSED bool model_read_index(const char *body, size_t size, bool *ready, struct error *error);

#endif
