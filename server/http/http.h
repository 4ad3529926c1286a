// The HTTP library: one of its daemons a listening socket, with its flags and options, and the callbacks, which do no more than call
// request.h and watcher.h.
#ifndef VOXELD_HTTP_H
#define VOXELD_HTTP_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/kernels.h"

enum { CONNECTION_MEMORY = 256 * 1024 };  // bytes, of one that has had a request; see http.c

struct server;

// Whether the library can be used, and the options' listeners are sound and allowed, as far as can be told without listening. False with a
// reason.
VX_WARN_UNUSED bool http_check(struct server *server, char *error, size_t error_size);
// Listens and starts the IO threads; fills server->address. False with a reason.
VX_WARN_UNUSED bool http_start(struct server *server, char *error, size_t error_size);
// Ends every connection. No request may be suspended: the queue is empty and no worker has a job.
void http_stop(struct server *server);

#endif
