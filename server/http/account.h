// Accounts for a finished request: updates the counters and writes its one log line.
//
// Runs on the IO thread that closes the request.
#ifndef VOXELD_ACCOUNT_H
#define VOXELD_ACCOUNT_H

#include "server/http/request.h"

// `aborted`: the client left before its answer was sent.
void request_account(struct request *request, bool aborted);

#endif
