// The files of server/pages/web, which browsers load.
//
// They ask for no credentials, and tell nothing of the service: their scripts ask the API, with the user's token. Each
// is a text of the binary. Nothing comes from elsewhere, and the answers' headers forbid that it could.
#ifndef VOXELD_WEB_H
#define VOXELD_WEB_H

#include "server/http/page.h"

// A row of the table of pages that answers with that file; NULL: the one that the path names.
#define WEB_PAGE(file)                                                                                                 \
  { .name = (file), .media_type_of = web_media_type, .tag_of = web_tag, .headers = web_headers, .write = web_write }

extern const struct page_header web_headers[];

const char *web_media_type(const char *file);  // by the end of its name
const char *web_tag(const char *file);         // NULL: there is no such file
bool web_write(const struct view *view, const struct page_asked *asked, struct text *out, struct error *error);

#endif
