// A page: the answer of an endpoint that computes nothing. The pages are in pages/; the daemon hands their table to
// http/.
#ifndef VOXELD_PAGE_H
#define VOXELD_PAGE_H

#include <stdbool.h>

#include "api/base/problem.h"
#include "api/base/text.h"

struct view;  // what pages show; defined in pages/

struct page {
  const char *media_type;
  // Writes the page to `out`. False with a problem. `name` is the part of the path that matches the route's *. The page
  // is measured first, so this is called twice or more for one answer. NULL: the endpoint has no page.
  bool (*write)(const struct view *view, const char *name, struct text *out, struct problem *problem);
};

#endif
