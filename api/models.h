// The models of the KServe v2 protocol: each operation that needs no detector, with its defaults; each preset; each
// further operation of a preset, with the name PRESET_OPERATION; each detector; and each detector's backbone, with the
// name DETECTOR_backbone. If several have the same name, the first in this order is the model. Any thread.
#ifndef VOXELD_MODELS_OF_API_H
#define VOXELD_MODELS_OF_API_H

#include "api/query.h"
#include "api/wire/model.h"

enum { MODEL_NAME_SIZE = 96 };  // room for the name of a preset and the name of an operation

// Finds the model of that name. A version other than "" must be the model's version. `memory` gets the request of an
// operation or of a detector; for a preset the model points to the preset's own request. If a detector does not serve,
// its request names no detector. False with an error if there is no such model.
VX_WARN_UNUSED bool model_find(const struct named *named, const char *name, const char *version,
                               struct job_request *memory, struct model *model, struct error *error);

// Models are numbered from 0, below this number. Some numbers have no model.
size_t model_numbers(const struct named *named);
// The model's name goes to `name`, to which the model points. False if the number has no model.
VX_WARN_UNUSED bool model_at(const struct named *named, size_t number, char name[MODEL_NAME_SIZE],
                             struct job_request *memory, struct model *model);

#endif
