// The models of the KServe v2 protocol: each operation with its defaults, each preset, and each further operation that
// a preset has parameters of, by the name PRESET_OPERATION; and each model that detects. If several have the same name,
// it is the first of these. Any thread.
#ifndef VOXELD_MODELS_OF_API_H
#define VOXELD_MODELS_OF_API_H

#include "api/query.h"
#include "api/wire/model.h"

enum { MODEL_NAME_SIZE = 96 };  // the names of a preset and of an operation fit

// Finds a model; of that version, if it is not "". `memory` gets the request of an operation or of a detector; a
// preset's own is pointed to. The request of a detector that does not serve has no detector. False if there is none.
VX_WARN_UNUSED bool model_find(const struct named *named, const char *name, const char *version,
                               struct job_request *memory, struct model *model);

// How many numbers a list of all models has. Some are no model's.
size_t model_numbers(const struct named *named);
// Finds the model of a number below that; `name` gets its name, to which the model points. False if there is none.
VX_WARN_UNUSED bool model_at(const struct named *named, size_t number, char name[MODEL_NAME_SIZE],
                             struct job_request *memory, struct model *model);

#endif
