// SIGHUP: presets, tokens and certificates are read again. Main only.
#ifndef VOXELD_RELOAD_H
#define VOXELD_RELOAD_H

struct server;

// Each of the three is replaced whole or, where its files are bad, kept as it was; the log says which. Requests are not
// held up, and those under way keep what they have found.
void reload(struct server *server);

#endif
