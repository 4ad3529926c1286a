// The room of pages: what GET answers. Each page shows the rooms below as they are now.
//
// In: a view of the rooms. Out: text. IO threads, which the HTTP room lends; nothing is kept here. The room may include all
// below it: http/, jobs/, net/, clients/, config/ and base/.
#ifndef VOXELD_PAGES_H
#define VOXELD_PAGES_H

#include "api/routes.h"
#include "server/http/page.h"

extern const struct page pages[ENDPOINT_COUNT];

#endif
