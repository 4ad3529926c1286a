// The models of the KServe v2 protocol: each operation with its defaults, each preset, and each further operation that
// a preset has parameters of, by the name PRESET_OPERATION. If several have the same name, it is the first of these.
// Any thread.
#ifndef VOXELD_MODELS_OF_API_H
#define VOXELD_MODELS_OF_API_H

#include "api/presets.h"
#include "api/wire/model.h"

enum { MODEL_NAME_SIZE = 96 };  // the names of a preset and of an operation fit

// Finds a model. `memory` gets the request of an operation; a preset's own is pointed to. False if there is none.
VX_WARN_UNUSED bool model_find(const struct presets *presets, const char *name, struct job_request *memory,
                               struct model *model);

// How many numbers a list of all models has. Some are no model's.
size_t model_numbers(const struct presets *presets);
// Finds the model of a number below that; `name` gets its name, to which the model points. False if there is none.
VX_WARN_UNUSED bool model_at(const struct presets *presets, size_t number, char name[MODEL_NAME_SIZE],
                             struct job_request *memory, struct model *model);

#endif
