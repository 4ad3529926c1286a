// Tries libmicrohttpd before anything is served, and so learns what it does.
//
// Main's thread, once.
#ifndef VOXELD_LEARN_H
#define VOXELD_LEARN_H

#include "server/http/library.h"

// Fills the value. False with a reason if the daemon cannot serve with this library; logs a warning for what it serves
// with less surely.
VX_WARN_UNUSED bool library_learn(struct library *library, char *error, size_t error_size);

#endif
