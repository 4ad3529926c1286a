// SIGHUP: reads presets, tokens and certificates again. Main's thread.
#ifndef VOXELD_RELOAD_H
#define VOXELD_RELOAD_H

struct server;

// Replaces each of the three whole, or keeps it if its files are bad; the log says which. Requests do not wait for a
// reload. A request in progress keeps what it has looked up.
void reload(struct server *server);

#endif
