// Sets the parameters of a request: from the items of a query, or from a JSON object in a file. Items and objects
// belong to the caller and are only read. Any thread.
#ifndef VOXELD_API_OPS_OVERLAY_H
#define VOXELD_API_OPS_OVERLAY_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "api/ops/ops.h"

// One name=value, percent-decoded. `value` is NULL if there is no '='. Both may contain a NUL, so use the lengths.
struct query_item {
  const char *name, *value;
  size_t name_length, value_length;
};

enum { QUERY_MAX_ITEMS = 64 };
struct query {
  struct query_item items[QUERY_MAX_ITEMS];
  size_t count;
};

const struct query_item *query_find(const struct query *query, const char *name);  // the first; NULL if there is none

VX_WARN_UNUSED bool query_set(struct job_request *request, const struct query_item *item, struct error *error);

// Lays a query, which may give each parameter once, over a request that was set to a preset or to the defaults.
// Finishes the request. False with an error.
VX_WARN_UNUSED bool job_request_overlay(struct job_request *request, const struct query *query, struct error *error);

// Sets a parameter for each member of an object in a file, with names and values as in a query; lists are JSON arrays.
// The items of `steps` may also be objects: {"op": NAME, "tag": TAG, and the step's parameters}; without "tag", NAME is
// the tag. Refuses parameters that describe a single request, such as regions. `place` names the object in errors.
// False with an error.
VX_WARN_UNUSED bool settings_read(struct job_request *request, json_t *parameters, const char *place,
                                  struct error *error);

#endif
