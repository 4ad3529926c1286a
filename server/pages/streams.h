// The pages of streams: the client's own. Rows of the table in pages.c. IO threads; a worker calls streams_fill_last.
#ifndef VOXELD_PAGES_STREAMS_H
#define VOXELD_PAGES_STREAMS_H

#include "server/http/page.h"

// A row of the table of pages that tells what happens. Proxies are not to keep events back until there are many.
#define STREAMS_EVENTS                                                                                                 \
  { .media_type = "text/event-stream", .headers = streams_headers, .follow = streams_follow }

extern const struct page_header streams_headers[];

// The stream of the path's name or, without one, all.
bool streams_write_status(const struct view *view, const struct page_asked *asked, struct text *out,
                          struct error *error);
bool streams_act_drop(const struct view *view, const struct page_asked *asked, struct error *error);
// What was done has no other answer.
bool streams_write_nothing(const struct view *view, const struct page_asked *asked, struct text *out,
                           struct error *error);
// The points that the last request of the stream joined, as a safetensors file, and the length of that file. The length
// is not known before if points near the sensor are removed.
bool streams_fill_last(const struct view *view, const struct page_asked *asked, struct job *job);
bool streams_measure_last(const struct view *view, const struct page_asked *asked, int64_t *length,
                          struct error *error);
// Subscribes to the stream of the path's name or, without one, to all.
bool streams_follow(const struct view *view, const struct page_asked *asked, struct subscriber *subscriber,
                    struct error *error);

#endif
