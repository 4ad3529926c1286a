// The behaviour of libmicrohttpd beyond its interface.
//
// Versions differ in what the interface leaves open. docs/contribute/libmicrohttpd.md lists what voxeld relies on. Main
// fills the struct before it starts the I/O threads, which read it.
#ifndef VOXELD_LIBRARY_H
#define VOXELD_LIBRARY_H

#include <microhttpd.h>
#include <stdbool.h>
#include <stddef.h>

#include "kernels/kernels.h"

struct library {
  bool strict;     // MHD_OPTION_STRICT_FOR_CLIENT can be used
  bool laid_out;   // a request lies in memory as head_trace.h says
  bool cut_query;  // a request whose query does not fit the memory gets an answer only after library_cut_query
};

// Fills `*library` from the row of `version` in the table of tested versions. A version without a row gets the row
// before it, and a warning is logged. False with a reason if there is no row before it.
VX_WARN_UNUSED bool library_find(struct library *library, const char *version, struct error *error);

// Makes the library see an empty query. `target` must be what MHD_OPTION_URI_LOG_CALLBACK gives, and have a query.
void library_cut_query(const char *target);

// Cuts the blanks after a header's value (RFC 9110, section 5.5). Versions up to 0.9.99 do not cut them. The value must
// be in the connection's memory.
void library_cut_blanks(const char *value, size_t size);

// Where the head of the request ends in the library's memory (head_trace.h). `method` must be the library's.
const char *library_head_end(struct MHD_Connection *connection, const char *method);

// The status of an answer that the library made by itself, as its log message `text` tells; 0: the message is about
// something else.
int library_own_status(const char *text);

// Whether the log message `text` says how one connection ended. Clients can cause such messages at will.
bool library_tells_of_one_end(const char *text);

#endif
