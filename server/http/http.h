// Starts one libmicrohttpd daemon per listening socket, hands it the connections that come there, and forwards its
// callbacks to the exchange of a request and to the watcher.
//
// The daemon starts and ends it; the callbacks run on the library's IO threads.
#ifndef VOXELD_HTTP_H
#define VOXELD_HTTP_H

#include <microhttpd.h>
#include <stdbool.h>
#include <stddef.h>

#include "kernels/kernels.h"
#include "server/http/service.h"
#include "server/net/acceptor.h"
#include "server/net/listener.h"

enum {
  CONNECTION_MEMORY = 256 * 1024,  // bytes that a connection keeps once it has had a request; see http.c
  PAGES_THREADS = 2,               // IO threads of a listener that serves pages alone
};

struct http {
  struct service service;
  struct listeners listeners;
  struct acceptor acceptor;
  struct MHD_Daemon *daemon[LISTENERS_MAX * LISTENER_LISTS];  // one per listener
  // The addresses of the listeners as bound, separated by commas: those that serve everything, and pages alone.
  char address[1100], pages_address[1100];
};

// Bytes of memory of one request. A connection has one request at a time at most.
size_t http_request_size(void);
// The version of the library that is loaded; the library's own text.
const char *http_library_version(void);

// Sets up the gate and the pool of requests. The caller has filled what is `Given` in http->service.
void http_init(struct http *http);
// Checks, without listening, that the library can be used and that the listeners of the options are valid and allowed.
// False with a reason.
VX_WARN_UNUSED bool http_check(struct http *http, struct error *error);
// Makes the same checks, then listens and starts the IO threads. False with a reason: the process is to end then, since
// some threads may run.
VX_WARN_UNUSED bool http_start(struct http *http, struct error *error);
// Stops listening, ends every connection and the IO threads. No request may be suspended then, so no job may wait or
// run.
void http_stop(struct http *http);
void http_destroy(struct http *http);

#endif
