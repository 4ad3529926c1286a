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
  bool held;  // handled as a job is: suspended before and after its body, when its client has finished sending
  const struct library *library;  // how the library is used
  const char *request;
  size_t length;
  // Out; zero before.
  bool reached;       // the library called for the head
  bool broken;        // the request does not lie in memory as it was sent (head_trace.h)
  int answers;        // status lines that came back
  char answer[1024];  // the first bytes that came back, ended by a NUL
  // What the library called, in order, a letter each: t target, h head, b body, w whole body, d done (the answer is
  // queued), c completed, f freed, e ended.
  char calls[32];
};

// Plays the request and fills what is `Out`. False if the library could not be started, or not be connected to.
VX_WARN_UNUSED bool rehearse(struct rehearsal *rehearsal);

#endif
