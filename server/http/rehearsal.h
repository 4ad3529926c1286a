// One request to libmicrohttpd, by a client and on a connection within this process, before anything is served.
//
// Runs on main's thread: the library is started without threads and without a listening socket. Nothing is left behind.
#ifndef VOXELD_REHEARSAL_H
#define VOXELD_REHEARSAL_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/kernels.h"
#include "server/http/library.h"

struct rehearsal {
  // In.
  bool strict;  // what the library is told
  bool held;    // handled as a job is: suspended before and after its body, its client gone silent meanwhile
  const struct library *library;  // by which NULs are looked for
  const char *request;
  size_t length;
  // Out.
  bool reached;        // a handler was called
  bool value_has_nul;  // of a header named X
  bool target_has_nul;
  int answers;        // status lines that came back
  char answer[1024];  // what came back, cut there and ended by a NUL
  char calls
      [32];  // the library's, a letter each: t target, h head, b body, w whole, d done, c completed, f freed, e ended
};

// False if the library could not be started.
VX_WARN_UNUSED bool rehearse(struct rehearsal *rehearsal);

#endif
