// Reading JSON with jansson. Where there is no memory for a character, jansson leaves that out and goes on; here it is
// an error. Files of options and presets are read so. One thread at a time.
#ifndef VOXELD_JSON_H
#define VOXELD_JSON_H

#include <jansson.h>
#include <stddef.h>

// The value, in whose objects no key stands twice; the caller's. NULL with the reason and the line that is at fault; a
// negative one where none is.
json_t *json_read(const char *text, size_t size, json_error_t *error);
json_t *json_read_file(const char *path, json_error_t *error);

#endif
