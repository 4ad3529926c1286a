// The pages of the KServe v2 protocol. Rows of the table in pages.c. IO threads.
#ifndef VOXELD_PAGES_KSERVE_H
#define VOXELD_PAGES_KSERVE_H

#include "server/http/page.h"

bool kserve_write_live(const struct view *view, const struct page_asked *asked, struct text *out, struct error *error);
bool kserve_write_ready(const struct view *view, const struct page_asked *asked, struct text *out, struct error *error);
bool kserve_write_server(const struct view *view, const struct page_asked *asked, struct text *out,
                         struct error *error);

bool kserve_write_model(const struct view *view, const struct page_asked *asked, struct text *out, struct error *error);
bool kserve_write_config(const struct view *view, const struct page_asked *asked, struct text *out,
                         struct error *error);
bool kserve_write_stats(const struct view *view, const struct page_asked *asked, struct text *out, struct error *error);
bool kserve_write_model_ready(const struct view *view, const struct page_asked *asked, struct text *out,
                              struct error *error);

bool kserve_write_models(const struct view *view, const struct page_asked *asked, struct text *out,
                         struct error *error);
bool kserve_write_all_stats(const struct view *view, const struct page_asked *asked, struct text *out,
                            struct error *error);
bool kserve_write_index(const struct view *view, const struct page_asked *asked, struct text *out, struct error *error);
// Loading and unloading.
bool kserve_refuse_load(const struct view *view, const struct page_asked *asked, struct text *out, struct error *error);

#endif
