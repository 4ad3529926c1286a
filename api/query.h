// From a query string's items to a checked request: a preset's parameters, and the query's own over them.
//
// The items belong to the caller and are only read. Any thread.
#ifndef VOXELD_QUERY_H
#define VOXELD_QUERY_H

#include <stdbool.h>
#include <stddef.h>

#include "api/ops/ops.h"
#include "api/presets.h"

// One name=value, percent-decoded; `value` is NULL where there is no '='. Their lengths count: either may hold a NUL.
struct query_item {
  const char *name, *value;
  size_t name_length, value_length;
};

enum { QUERY_MAX_ITEMS = 32 };
struct query {
  struct query_item items[QUERY_MAX_ITEMS];
  size_t count;
};

// The query's preset, then every other parameter over it, each name once, then all held against each other. False with
// a problem.
VX_WARN_UNUSED bool job_request_from_query(struct job_request *request, enum vx_op op, const struct query *query,
                                           const struct presets *presets, struct problem *problem);

#endif
