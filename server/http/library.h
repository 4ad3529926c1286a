// What libmicrohttpd does beyond what its interface promises.
//
// The daemon runs with any version that the machine has. What the interface leaves open is tried at start
// (rehearsal.h), and the daemon goes by what the library did. The version number decides only two things: whether the
// daemon serves with it, and whether the bytes behind a text may be read to find a NUL. docs/libmicrohttpd.md lists
// every such reliance. Main fills the struct before the IO threads start; from then on it is only read.
#ifndef VOXELD_LIBRARY_H
#define VOXELD_LIBRARY_H

#include <microhttpd.h>
#include <stdbool.h>
#include <stddef.h>

#include "kernels/kernels.h"

// What becomes of a NUL in a header's value or in the request's target.
enum library_nul {
  NUL_REFUSED,  // the library refuses the request, or hands the NUL on
  NUL_MARKED,   // the library cuts the text there, and the bytes behind the text show it
  NUL_HIDDEN,   // the library cuts the text there, and nothing shows it
};

struct library {
  bool strict;  // MHD_OPTION_STRICT_FOR_CLIENT can be used: a bad head is then refused, with one answer
  enum library_nul value, target;
};

// Whether a header's value has a NUL. `value` must be the library's memory: bytes behind its `size` bytes may be read.
bool library_value_has_nul(const struct library *library, const char *value, size_t size);
// Whether a request's target has a NUL. `target` must be what MHD_OPTION_URI_LOG_CALLBACK gives: likewise.
bool library_target_has_nul(const struct library *library, const char *target);

// The status of an answer that the library gave by itself, read from its log message `text`. 0 if the message is about
// something else.
int library_own_status(const char *text);

// A response whose body is the `size` bytes at `data`. They must stay until `release` is called with `cls`. NULL: out
// of memory, and `release` is not called.
struct MHD_Response *library_response(const char *data, size_t size, void (*release)(void *cls), void *cls);

#endif
