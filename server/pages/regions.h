// The pages of shared-memory regions, as Triton's extensions to the KServe v2 protocol have them. Rows of the table in
// pages.c. IO threads.
#ifndef VOXELD_PAGES_REGIONS_H
#define VOXELD_PAGES_REGIONS_H

#include "server/http/page.h"

// The client's own regions: that of the path's name or, without one, all.
bool regions_write_status(const struct view *view, const struct page_asked *asked, struct text *out,
                          struct error *error);
bool regions_act_register(const struct view *view, const struct page_asked *asked, struct error *error);
bool regions_act_unregister(const struct view *view, const struct page_asked *asked, struct error *error);

// CUDA memory is not shared.
bool regions_write_none(const struct view *view, const struct page_asked *asked, struct text *out, struct error *error);
bool regions_act_refuse(const struct view *view, const struct page_asked *asked, struct error *error);

// What was done has no other answer.
bool regions_write_nothing(const struct view *view, const struct page_asked *asked, struct text *out,
                           struct error *error);

#endif
