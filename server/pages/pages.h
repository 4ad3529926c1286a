// The GET endpoints: each renders its page from the server's state. IO threads.
#ifndef VOXELD_PAGES_H
#define VOXELD_PAGES_H

#include "api/base/problem.h"
#include "api/base/text.h"
#include "api/routes.h"

struct server;

struct page {
  const char *media_type;
  // Writes the page; false with a problem. `name` is the part of the path that stands for the route's *.
  bool (*write)(struct server *server, const char *name, struct text *out, struct problem *problem);
};

const struct page *page_of(enum endpoint endpoint);  // NULL for an endpoint that is no page

void describe_write(struct text *out);  // every table of the service as JSON: voxeld --describe

#endif
