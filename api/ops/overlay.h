// A query's items, and how they are laid over a request.
//
// The items belong to the caller and are only read. Any thread.
#ifndef VOXELD_API_OPS_OVERLAY_H
#define VOXELD_API_OPS_OVERLAY_H

#include <stdbool.h>
#include <stddef.h>

#include "api/ops/ops.h"

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

const struct query_item *query_find(const struct query *query, const char *name);  // the first; NULL if there is none

// Sets one parameter of the request. False with an error.
VX_WARN_UNUSED bool query_set(struct job_request *request, const struct query_item *item, struct error *error);

// Lays a query over a request that was set to a preset or to the defaults: sets every parameter, each at most once, and
// checks them against each other. False with an error.
VX_WARN_UNUSED bool job_request_overlay(struct job_request *request, const struct query *query, struct error *error);

#endif
