// Reads JSON with jansson. If an allocation fails, jansson may leave out a character and go on; here that is an error.
// Any thread, once the first call has returned: it installs an allocator, and the daemon makes it when it starts.
#ifndef VOXELD_JSON_H
#define VOXELD_JSON_H

#include <jansson.h>
#include <stddef.h>

#include "kernels/stop.h"

// The value, which the caller releases; a key that stands twice in an object is an error. NULL with the reason and the
// line at fault, which is negative if no line is.
json_t *json_read(const char *text, size_t size, json_error_t *error);
// The same of a text that may be long. NULL also if the job is stopped.
json_t *json_read_long(const char *text, size_t size, struct vx_stop *stop, json_error_t *error);

#endif
