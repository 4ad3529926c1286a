// The JSON that clients read about their streams. Any thread.
#ifndef VOXELD_STREAM_SNAPSHOT_H
#define VOXELD_STREAM_SNAPSHOT_H

#include "api/base/text.h"
#include "server/streams/streams.h"

// Writes the client's stream of that name as an object, or all its streams (NULL) as an object with a list. False with
// an error: there is no such stream.
VX_WARN_UNUSED bool streams_write(struct streams *streams, const struct client *client, const char *name,
                                  struct text *out, struct error *error);
// Drops all sweeps of the client's stream. False with an error: there is no such stream.
VX_WARN_UNUSED bool streams_delete(struct streams *streams, const struct client *client, const char *name,
                                   struct error *error);
// Subscribes to the client's stream of that name, or to all its streams (""). The stream need not have begun.
VX_WARN_UNUSED bool streams_subscribe(struct streams *streams, struct client *client, const char *name,
                                      struct subscriber *subscriber, struct error *error);
// Sets the error that the client has no such stream. Returns false.
bool streams_refuse_name(const char *name, struct error *error);

#endif
