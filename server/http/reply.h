// The answer of a request: tensors or metadata from its job's output, a page, or a problem. Runs on the IO thread that
// owns the connection; from the queueing on the response owns the output and its free callback gives it back.
#ifndef VOXELD_REPLY_H
#define VOXELD_REPLY_H

#include "server/http/request.h"

enum MHD_Result request_reply(struct request *request);

#endif
