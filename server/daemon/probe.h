// `voxeld --probe` asks the service that runs with the same options whether it is healthy. It is the health check of a
// container that has no curl.
//
// Main's thread, in a process of its own.
#ifndef VOXELD_PROBE_H
#define VOXELD_PROBE_H

#include <stdbool.h>
#include <stddef.h>

#include "server/config/options.h"

// True if the first listener of pages_listen or, without one, of listen answers GET /healthz with 200 within a few
// seconds. Does not verify the server's certificate, since the listener is on this machine. False with a reason.
VX_WARN_UNUSED bool probe(const struct options *options, struct error *error);

#endif
