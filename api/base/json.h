// Reads JSON with jansson. Each document has its own block of memory of json_cost bytes, from which jansson's
// allocations are cut. If an allocation fails, jansson may leave out a character and continue; this module reports an
// error instead.
//
// The first call installs an allocator; the daemon makes this call at its start. After that, any thread may call. A
// document belongs to its caller.
#ifndef VOXELD_JSON_H
#define VOXELD_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "api/base/problem.h"
#include "kernels/kernels.h"
#include "kernels/stop.h"

struct json_document {
  json_t *root;  // callers keep no reference to it or to its values
  char *memory;  // [size], NULL if the document is closed
  size_t size, used;
};

// The maximum memory, in bytes, for `size` bytes of text.
size_t json_cost(const char *text, size_t size);

// Opens a document; json_close releases it. A repeated key in an object is an error. False with the reason and the line
// at fault (negative: no line is at fault).
VX_WARN_UNUSED bool json_open(struct json_document *document, const char *text, size_t size, json_error_t *error);
// The same for a text that a client sent. `what` names the text in errors. Fails if the job is stopped.
VX_WARN_UNUSED bool json_open_sent(struct json_document *document, const char *what, const char *text, size_t size,
                                   struct vx_stop *stop, struct error *error);
void json_close(struct json_document *document);  // may be closed already

#endif
