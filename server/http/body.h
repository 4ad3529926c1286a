// A request's body: read into the job's input, or swallowed. An IO thread, which owns the request.
#ifndef VOXELD_BODY_H
#define VOXELD_BODY_H

#include "server/http/request.h"

// Some of the body has come; `*size` becomes 0. body_receive turns to discarding if it must refuse. MHD_NO: the
// connection ends.
enum MHD_Result body_receive(struct request *request, const char *data, size_t *size);
enum MHD_Result body_discard(struct request *request, size_t *size);
// Whether a body of `bytes`, all of it, is whole rows that the parameters split. False with a problem.
VX_WARN_UNUSED bool body_check(struct request *request, int64_t bytes);

// Whether the body is read on now. False: the request waits at the gate.
bool body_pass_gate(struct request *request);

#endif
