// Serving: from the start of the rooms to the exit status. Main's thread.
#ifndef VOXELD_SERVE_H
#define VOXELD_SERVE_H

#include "server/daemon/server.h"

// Serves until a signal or the loss of a GPU, drains and stops. The process's exit status, or -1 with a reason if it
// could not start. The server is prepared and signals are blocked.
int serve(struct server *server, char *error, size_t error_size);

#endif
