// Starts one libmicrohttpd daemon per listening socket and forwards its callbacks to the exchange of a request and to
// the watcher.
//
// The daemon starts and ends it; the callbacks run on the library's IO threads.
#ifndef VOXELD_HTTP_H
#define VOXELD_HTTP_H

#include <microhttpd.h>
#include <stdbool.h>
#include <stddef.h>

#include "kernels/kernels.h"
#include "server/http/service.h"
#include "server/net/listener.h"

enum { CONNECTION_MEMORY = 256 * 1024 };  // bytes, of one that has had a request; see http.c

struct http {
  struct service service;
  struct listeners listeners;
  struct MHD_Daemon *daemon[LISTENERS_MAX];  // one a listener
  char address[1100];                        // where it listens, with commas between
};

// Bytes of a request's memory, of which there is one a connection at most.
size_t http_request_size(void);
// The library's version, as it tells.
const char *http_library_version(void);

// What waits and what is reused. `service` has what is given to it.
void http_init(struct http *http);
// Whether the library can be used, and the options' listeners are sound and allowed, as far as can be told without
// listening. False with a reason.
VX_WARN_UNUSED bool http_check(struct http *http, char *error, size_t error_size);
// The same, and listens and starts the IO threads. False with a reason.
VX_WARN_UNUSED bool http_start(struct http *http, char *error, size_t error_size);
// Ends every connection. No request may be suspended: no job waits or runs.
void http_stop(struct http *http);
void http_destroy(struct http *http);

#endif
