// Files for browsers; see pages.h.
#include "server/pages/pages.h"

#include <string.h>

#include "api/resources.h"

// no-cache: an upgrade of the service may change a file. The policy allows scripts and styles only from files of the
// service, so a script that stands in a scan's name cannot run.
const struct page_header web_headers[] = {
    {"Content-Security-Policy",
     "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
     "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
    {"X-Content-Type-Options", "nosniff"},
    {"Referrer-Policy", "no-referrer"},
    {"Cache-Control", "no-cache"},
    {NULL, NULL}};

static const struct {
  const char *ending, *media_type;
} media_types[] = {{".html", "text/html; charset=utf-8"},
                   {".css", "text/css; charset=utf-8"},
                   {".js", "text/javascript; charset=utf-8"},
                   {".svg", "image/svg+xml"}};

const char *web_media_type(const char *file) {
  const char *ending = strrchr(file, '.');
  for (size_t i = 0; ending && i < sizeof media_types / sizeof *media_types; i++)
    if (strcmp(ending, media_types[i].ending) == 0) return media_types[i].media_type;
  return "text/plain; charset=utf-8";
}

static const struct resource *find(const char *file) {
  for (size_t i = 0; i < resources_web_count; i++)
    if (strcmp(resources_web[i].name, file) == 0) return &resources_web[i];
  return NULL;
}

const char *web_tag(const char *file) {
  const struct resource *found = find(file);
  return found ? found->tag : NULL;
}

bool web_write(const struct page_asked *asked, struct text *out, struct error *error) {
  const struct resource *file = find(asked->name);
  if (!file) return error_refuse(error, ERROR_NOT_FOUND, NULL, "the pages have no file '%.80s'", asked->name);
  text_append(out, file->text, file->size);
  return true;
}
