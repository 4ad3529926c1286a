// Makes a checked request from a query string. The query's parameters override those of its preset.
//
// The items belong to the caller and are only read. Any thread.
#ifndef VOXELD_QUERY_H
#define VOXELD_QUERY_H

#include <stdbool.h>

#include "api/detectors.h"
#include "api/ops/overlay.h"
#include "api/presets.h"

// The presets and detectors that a query may name.
struct named {
  const struct presets *presets;
  const struct detectors *detectors;
};

// `op`: the first operation of the endpoint; if it has others, the query's `head`, or else its preset, chooses. The
// request of a detection points to its detector, which the caller holds.
VX_WARN_UNUSED bool job_request_from_query(struct job_request *request, enum vx_op op, const struct query *query,
                                           const struct named *named, struct error *error);

#endif
