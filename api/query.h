// Makes a checked request from the items of a query string: the preset's parameters, overridden by the query's own.
//
// The items belong to the caller and are only read. Any thread.
#ifndef VOXELD_QUERY_H
#define VOXELD_QUERY_H

#include <stdbool.h>
#include <stddef.h>

#include "api/ops/ops.h"
#include "api/presets.h"

// One name=value, percent-decoded; `value` is NULL if there is no '='. Either may hold a NUL, so use the lengths.
struct query_item {
  const char *name, *value;
  size_t name_length, value_length;
};

enum { QUERY_MAX_ITEMS = 32 };
struct query {
  struct query_item items[QUERY_MAX_ITEMS];
  size_t count;
};

// Starts from the query's preset, sets every other parameter, each at most once, and then checks them against each
// other. False with a problem.
VX_WARN_UNUSED bool job_request_from_query(struct job_request *request, enum vx_op op, const struct query *query,
                                           const struct presets *presets, struct problem *problem);

// Lays a query over a request that was set to a preset or to the defaults, and finishes it. False with a problem.
VX_WARN_UNUSED bool job_request_overlay(struct job_request *request, const struct query *query,
                                        struct problem *problem);

#endif
