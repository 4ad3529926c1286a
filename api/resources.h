// Text files that are built into the binary: config/presets, api/web and api/openapi.yaml.
//
// cmake/resources.cmake writes the definitions. Everything is constant. Any thread.
#ifndef VOXELD_RESOURCES_H
#define VOXELD_RESOURCES_H

#include <stddef.h>

struct resource {
  const char *name;  // the file's name; of a preset, without .json
  const char *text;  // NUL-terminated
  size_t size;       // without that NUL
  const char *tag;   // for HTTP's ETag: the text's SHA-256 in quotation marks
};

extern const struct resource resources_presets[];  // sorted by name
extern const size_t resources_presets_count;
extern const struct resource resources_web[];
extern const size_t resources_web_count;
extern const struct resource resource_openapi;

#endif
