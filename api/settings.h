// Parameters as files have them: JSON objects whose names and values are those of a query. Any thread.
#ifndef VOXELD_SETTINGS_H
#define VOXELD_SETTINGS_H

#include <jansson.h>

#include "api/ops/ops.h"

// Sets each member of the object; lists are JSON arrays. `place` is where the object stands, as problems call it. What
// one request alone has is refused, such as regions of shared memory. False with an error.
VX_WARN_UNUSED bool settings_read(struct job_request *request, json_t *parameters, const char *place,
                                  struct error *error);

#endif
