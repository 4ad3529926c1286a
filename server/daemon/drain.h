// The end of service: readiness turns; then accepted requests are answered, new ones refused.
//
// Main's thread.
#ifndef VOXELD_DRAIN_H
#define VOXELD_DRAIN_H

#include "server/daemon/server.h"

// False if a job does not end. Takes a few seconds at most beyond the drain's own time.
VX_WARN_UNUSED bool drain(struct server *server);

#endif
