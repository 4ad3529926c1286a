// What libmicrohttpd does beyond what its interface promises.
//
// The daemon meets whatever version the machine has. If the interface says too little, the library is tried at start
// (rehearsal.h) and what it does decides. Only two facts need a version: which versions the daemon serves with, and
// where old ones leave a trace of a NUL. docs/libmicrohttpd.md lists every such reliance. Main fills the value before
// the IO threads start; from then on it is read only.
#ifndef VOXELD_LIBRARY_H
#define VOXELD_LIBRARY_H

#include <microhttpd.h>
#include <stdbool.h>
#include <stddef.h>

#include "kernels/kernels.h"

// What becomes of a NUL in a header's value or in the request's target.
enum library_nul {
  NUL_REFUSED,  // the library refuses the request, or hands the NUL on
  NUL_MARKED,   // the library ends the text there, and the bytes behind the text tell
  NUL_HIDDEN,   // the library ends the text there, and nothing tells
};

struct library {
  bool strict;  // it can be told to be strict about heads: it then refuses a bad one with a single answer
  enum library_nul value, target;
};

// Whether a header's value has a NUL. `value` is the library's, of `size` bytes.
bool library_value_has_nul(const struct library *library, const char *value, size_t size);
// Whether a request's target has a NUL. `target` is what MHD_OPTION_URI_LOG_CALLBACK gives.
bool library_target_has_nul(const struct library *library, const char *target);

// Reads the status of an answer of the library's own out of a text of its log. 0 if the text is about something else.
int library_own_status(const char *text);

// A response whose body is `data`, not copied. `release` is called with `cls` once the library needs the body no more.
// NULL: out of memory, and `release` is not called.
struct MHD_Response *library_response(const char *data, size_t size, void (*release)(void *cls), void *cls);

#endif
