// Everything that a request's headers decide: path, who may enter, method, framing, media type, parameters, length,
// memory.
//
// An IO thread, which owns the request.
#ifndef VOXELD_ADMIT_H
#define VOXELD_ADMIT_H

#include "server/http/request.h"

// Fills what comes from the headers and reserves what the job needs. False with a problem; `early` if it must be
// answered before the body.
VX_WARN_UNUSED bool request_admit(struct request *request, const char *method, const char *path, bool *early);

#endif
