// Tries libmicrohttpd out before anything is served, to learn how this version behaves.
//
// Runs once, on main's thread.
#ifndef VOXELD_LEARN_H
#define VOXELD_LEARN_H

#include "server/http/library.h"

// Fills `*library`. False with a reason if the daemon cannot serve with this version. Logs a warning if it can, but the
// version is untested or hides NULs.
VX_WARN_UNUSED bool library_learn(struct library *library, char *error, size_t error_size);

#endif
