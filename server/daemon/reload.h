// SIGHUP: reads presets, models, tokens and certificates again.
//
// A thread of its own does it, since a file may be on a network mount that does not answer. Then main still takes
// signals. The functions are for main's thread.
#ifndef VOXELD_RELOAD_H
#define VOXELD_RELOAD_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/kernels.h"

struct server;

// Starts the thread. False with a reason.
VX_WARN_UNUSED bool reload_start(struct server *server, struct error *error);
// Asks for a reload, which replaces each of the four whole, or keeps it if its files are bad; the log says which. Of
// the models it keeps single ones.
// Requests do not wait for a reload. A request in progress keeps what it has looked up. If a reload is in progress,
// another follows it. New models serve once their networks are warm.
void reload_ask(void);
// Ends the thread. False if a reload does not end within a second: then it may still use the server.
VX_WARN_UNUSED bool reload_end(void);

#endif
