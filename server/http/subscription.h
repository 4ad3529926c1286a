// Answers that last: the events of streams, sent as they happen.
//
// Runs on the IO thread that owns the connection. While there is no event the connection is suspended; whoever causes
// one resumes it, on any thread.
#ifndef VOXELD_SUBSCRIPTION_H
#define VOXELD_SUBSCRIPTION_H

#include "server/http/request.h"

// Subscribes to what the page follows, and makes the response, which ends the subscription once the library frees it.
// NULL with the request's problem.
struct MHD_Response *subscription_response(struct request *request, const struct page *page,
                                           const struct page_asked *asked);

#endif
