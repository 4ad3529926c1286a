// Answers a request: with tensors or metadata from its job's output, with a page, or with a problem.
//
// Runs on the IO thread that owns the connection, but for request_make_page.
#ifndef VOXELD_REPLY_H
#define VOXELD_REPLY_H

#include "server/http/request.h"

// Makes the response and queues it (REQUEST_REPLY). The response owns the job's output from then on, and gives it back
// once the library frees it. MHD_NO: there is no answer, and the connection ends.
enum MHD_Result request_reply(struct request *request);
// The `make` of the job of a page that a worker makes. Runs on the worker's thread.
VX_WARN_UNUSED bool request_make_page(struct job *job);

#endif
