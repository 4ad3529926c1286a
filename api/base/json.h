// Reads JSON with jansson, each document into memory of its own, which goes back whole.
//
// The memory is taken once, as much as json_cost says, and jansson's allocations are cut from it. So a document takes
// no more than was known before, and nothing of it stays in the heaps of threads. If an allocation fails, jansson may
// leave out a character and go on; here that is an error.
//
// Any thread, once the first call has returned: it installs an allocator, and the daemon makes it when it starts. A
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
  json_t *root;  // with all its values: no reference is taken or released
  char *memory;  // [size], NULL: the document is closed
  size_t size, used;
};

// Bytes of memory that a document takes, at most, which is read from `size` bytes of text.
size_t json_cost(const char *text, size_t size);

// Opens a document; json_close releases it. A key that stands twice in an object is an error. False with the reason and
// the line at fault, which is negative if no line is; the document is closed then.
VX_WARN_UNUSED bool json_open(struct json_document *document, const char *text, size_t size, json_error_t *error);
// Likewise, of a text that a client has sent. `what` it is, as problems call it. False with an error; a job that is
// stopped is an error of reading.
VX_WARN_UNUSED bool json_open_sent(struct json_document *document, const char *what, const char *text, size_t size,
                                   struct vx_stop *stop, struct error *error);
void json_close(struct json_document *document);  // a closed one is fine

#endif
