// Serving: from the start of the rooms to the exit status.
#ifndef VOXELD_SERVE_H
#define VOXELD_SERVE_H

#include "server/daemon/server.h"

// Starts the log and all rooms. Call signals_block and server_prepare first. False with a reason; the process must end
// then.
VX_WARN_UNUSED bool serve_start(struct server *server, struct error *error);
// Main's thread: serves until a signal or, if on_device_lost is exit, the loss of a GPU; then drains and stops. Returns
// the process's exit status. If a job does not end, it exits with 1.
int serve(struct server *server);

#endif
