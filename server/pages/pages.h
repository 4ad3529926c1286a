// What GET answers: one row for each endpoint. A page shows the rooms below as they are now. IO threads.
#ifndef VOXELD_PAGES_H
#define VOXELD_PAGES_H

#include "api/routes.h"
#include "server/http/page.h"

extern const struct page pages[ENDPOINT_COUNT];

#endif
