// Decides from its headers whether a request is admitted: framing, path, access, method, length, media type,
// parameters, memory.
//
// Runs on the IO thread that owns the request.
#ifndef VOXELD_ADMIT_H
#define VOXELD_ADMIT_H

#include "server/http/request.h"

// Fills the request's fields from its headers. If the endpoint computes, also takes a place in the queue and, if the
// length is known, memory for the body. False with request->problem set; `*early`, false before, becomes true if the
// problem must be answered before the body is read.
VX_WARN_UNUSED bool request_admit(struct request *request, const char *method, const char *path, bool *early);

#endif
