// Lets connections in by their clients' shares, ends them, and keeps some open for a moment after an early answer.
//
// I/O threads, main and the watcher's tick call these functions. They take the watcher's lock, unless a comment says
// otherwise.
#ifndef VOXELD_CONNECTIONS_H
#define VOXELD_CONNECTIONS_H

#include "server/net/watcher.h"

// A connection was accepted. Returns its peer, or NULL if it cannot be watched. Copies `address`. `proxy`: a trusted
// proxy has connected. `tls`: NULL without TLS. If the connection is refused or the server stops, the peer is in phase
// FAILED.
struct peer *connection_opened(struct watcher *watcher, struct listener_group *group, int fd, const char *address,
                               bool proxy, struct tls_session *tls);
// Ends all connections, and every later one.
void connections_end_all(struct watcher *watcher);
// The connection is about to be closed, before the library closes the descriptor. Frees the peer's slot.
void connection_closed(struct watcher *watcher, struct peer *peer);

// Ends an upload that is not complete: writes the problem straight to the socket (not with TLS). The caller then lets
// the library close the connection. Does nothing if no upload is under way.
void connection_fail(struct watcher *watcher, struct peer *peer, enum error_kind kind, const char *detail);
// The reading of a held upload's body goes on. False if the server has ended the connection.
VX_WARN_UNUSED bool connection_go_on(struct watcher *watcher, struct peer *peer);
// The problem with which the server has ended the connection; ERROR_NONE if there is none.
enum error_kind connection_failure(struct watcher *watcher, const struct peer *peer);
// Ends all uploads that are under way, as connection_fail does; the watcher closes the connections.
void connections_fail_uploads(struct watcher *watcher, enum error_kind kind, const char *detail);
// The connection's close becomes a lingering close: the watcher reads on for a while.
void connection_linger(struct watcher *watcher, struct peer *peer);

// Connections that were refused with that problem before any request, and have ended.
unsigned long long connections_refused(const struct watcher *watcher, enum error_kind kind);

// Ends the connection of `client` (NULL: of any client) in `group` whose body or answer moves most slowly, and returns
// its peer. NULL if none is slow. With the lock held.
VX_WARN_UNUSED struct peer *connections_end_slowest(struct watcher *watcher, const struct listener_group *group,
                                                    const struct client *client, int64_t now_ns);
// Ends the slowest answers until `bytes` of memory will be freed, or no answer is slow any more.
void connections_end_slow_answers(struct watcher *watcher, int64_t bytes, int64_t now_ns);

#endif
