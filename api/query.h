// Makes a checked request from the items of a query string: the preset's parameters, overridden by the query's own.
//
// The items belong to the caller and are only read. Any thread.
#ifndef VOXELD_QUERY_H
#define VOXELD_QUERY_H

#include <stdbool.h>

#include "api/detectors.h"
#include "api/ops/overlay.h"
#include "api/presets.h"

// What a query may name.
struct named {
  const struct presets *presets;
  const struct detectors *detectors;
};

// Starts from the query's preset, and lays the query over it. If the endpoint has several operations, `op` is the
// first, and the request is for the one that the query's `head`, or else its preset, chooses. A detection points to its
// model, which its caller holds. False with an error.
VX_WARN_UNUSED bool job_request_from_query(struct job_request *request, enum vx_op op, const struct query *query,
                                           const struct named *named, struct error *error);

#endif
