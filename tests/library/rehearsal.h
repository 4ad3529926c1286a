// A rehearsal: sends libmicrohttpd one request within this process, and records what it does.
//
// The library is started without threads and without a listening socket, and stopped at the end.
#ifndef VOXELD_REHEARSAL_H
#define VOXELD_REHEARSAL_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/kernels.h"
#include "server/http/library.h"

struct rehearsal {
  // In.
  bool held;  // handle the request like a job: suspend it before and after its body
  const struct library *library;
  const char *request;
  size_t length;
  // Out; zero before.
  bool reached;       // the library called the handler with the head
  bool broken;        // the request in the library's memory differs from what was sent (head_trace.h)
  int answers;        // status lines that came back
  char answer[1024];  // the first bytes that came back, zero-terminated
  // The library's calls in order, one letter each: t target, h head, b body, w whole body, d done (the answer is
  // queued), c completed, f freed, e ended.
  char calls[32];
};

// Plays the request and fills the part `Out`. Returns false if the library could not be started or connected to.
VX_WARN_UNUSED bool rehearse(struct rehearsal *rehearsal);

#endif
