// Connections come and go: they are let in by their clients' shares, and linger after an early answer.
//
// IO threads and main, under the watcher's lock.
#ifndef VOXELD_CONNECTIONS_H
#define VOXELD_CONNECTIONS_H

#include "server/net/watcher.h"

// A connection was accepted: its peer, or NULL where it cannot be watched. `address` is copied. Where its client has
// its share of connections the peer may be in phase FAILED already.
struct peer *connection_opened(struct watcher *watcher, int fd, const char *address, bool proxy,
                               struct tls_session *tls);
// Ends all connections, and every one that still comes.
void connections_end_all(struct watcher *watcher);
// Before the library closes the descriptor.
void connection_closed(struct watcher *watcher, struct peer *peer);

// Ends the upload in the middle: writes the problem straight to the socket, but not into a TLS stream, which just ends.
// The caller then lets the library close the connection.
void connection_fail(struct watcher *watcher, struct peer *peer, enum problem_kind kind, const char *detail);
// Why connection_fail or the watcher has ended the upload; PROBLEM_NONE where nothing failed.
enum problem_kind connection_failure(struct watcher *watcher, const struct peer *peer);
// The same to all uploads that are under way.
void connections_fail_uploads(struct watcher *watcher, enum problem_kind kind, const char *detail);
// After an early answer: read on for a while once the library closes.
void connection_linger(struct watcher *watcher, struct peer *peer);

#endif
