// The drain: /readyz turns to 503; after drain_delay_s new requests are refused and accepted ones answered.
//
// Main's thread.
#ifndef VOXELD_DRAIN_H
#define VOXELD_DRAIN_H

#include "server/daemon/server.h"

// False if a job does not end. Takes at most a few seconds more than drain_delay_s and drain_timeout_s together.
VX_WARN_UNUSED bool drain(struct server *server);

#endif
