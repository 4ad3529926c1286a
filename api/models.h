// The models of the KServe v2 protocol: each operation with its defaults, each preset, and each model that detects. Of
// several with one name it is the first of these. Any thread.
#ifndef VOXELD_MODELS_OF_API_H
#define VOXELD_MODELS_OF_API_H

#include "api/query.h"
#include "api/wire/model.h"

// Finds a model. `memory` gets the request of an operation or of a detector; a preset's own is pointed to. The request
// of a detector that does not serve has no detector. False if there is none.
VX_WARN_UNUSED bool model_find(const struct named *named, const char *name, struct job_request *memory,
                               struct model *model);

#endif
