// What `voxeld --probe` does, for the health check of a container without curl: asks the service that runs with the
// same options.
//
// One thread, main's, in a process of its own.
#ifndef VOXELD_PROBE_H
#define VOXELD_PROBE_H

#include <stdbool.h>
#include <stddef.h>

#include "server/config/options.h"

// Whether GET /healthz is answered 200 at the first of the options' listeners within a few seconds. With TLS the
// server's certificate is not verified: the listener is this machine's own. False with a reason.
VX_WARN_UNUSED bool probe(const struct options *options, char *error, size_t error_size);

#endif
