// What is left of a request once it is over: its counts and its one line in the log. Runs on the IO thread that closes
// it.
#ifndef VOXELD_ACCOUNT_H
#define VOXELD_ACCOUNT_H

#include "server/http/request.h"

// `aborted`: its client left before the answer was sent.
void request_account(struct request *request, bool aborted);

#endif
