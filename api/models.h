// The models of the KServe v2 protocol: each operation on points with its defaults, and each preset of such an
// operation. If both have the same name, it is the operation. Any thread.
#ifndef VOXELD_MODELS_OF_API_H
#define VOXELD_MODELS_OF_API_H

#include "api/presets.h"
#include "api/wire/model.h"

// Finds a model. `memory` gets the request of an operation; a preset's own is pointed to. False if there is none.
VX_WARN_UNUSED bool model_find(const struct presets *presets, const char *name, struct job_request *memory,
                               struct model *model);

#endif
