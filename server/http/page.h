// A page: what an endpoint that computes nothing answers. pages/ has them; the daemon hands them in.
#ifndef VOXELD_PAGE_H
#define VOXELD_PAGE_H

#include <stdbool.h>

#include "api/base/problem.h"
#include "api/base/text.h"

struct view;  // what pages show, which only they know

struct page {
  const char *media_type;
  // Writes the page; false with a problem. `name` is the part of the path that stands for the route's *. NULL: no page.
  bool (*write)(const struct view *view, const char *name, struct text *out, struct problem *problem);
};

#endif
