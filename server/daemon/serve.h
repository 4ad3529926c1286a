// Serving: from the start of the rooms to the exit status. Main's thread.
#ifndef VOXELD_SERVE_H
#define VOXELD_SERVE_H

#include "server/daemon/server.h"

// Serves until a signal or, if on_device_lost is exit, the loss of a GPU; then drains and stops. Returns the process's
// exit status, or -1 with a reason if it could not start. If a job does not end, it exits with 1. Call server_prepare
// and signals_block first.
int serve(struct server *server, char *error, size_t error_size);

#endif
