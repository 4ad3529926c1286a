// Text files of the source tree that are built into the binary: the presets of config/presets, the files of the pages
// in api/web, and api/openapi.yaml.
//
// The build writes the definitions (cmake/resources.cmake). Everything here is constant, so any thread may read it.
#ifndef VOXELD_RESOURCES_H
#define VOXELD_RESOURCES_H

#include <stddef.h>

struct resource {
  const char *name;  // of a preset: its file name without .json
  const char *text;  // NUL-terminated
  size_t size;       // without that NUL
  const char *tag;   // HTTP's entity tag: the text's SHA-256 in quotation marks
};

extern const struct resource resources_presets[];  // sorted by name
extern const size_t resources_presets_count;
extern const struct resource resources_web[];  // by their file names
extern const size_t resources_web_count;
extern const struct resource resource_openapi;

#endif
