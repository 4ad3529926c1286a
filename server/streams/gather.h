// The sweeps that a request of a stream joins, and the sweeps that the stream keeps.
//
// A stream keeps a sweep only after its request has succeeded. A reader counts as a user of its sweep, so sweeps are
// copied without the lock. Any thread.
#ifndef VOXELD_GATHER_SWEEPS_H
#define VOXELD_GATHER_SWEEPS_H

#include "server/streams/turns.h"

// Sweeps to join, in this order: the newest of each stream, in the order of the given names; then the second newest of
// each stream, and so on.
struct gathered {
  int32_t count;
  struct {
    struct sweep *sweep;
    int32_t stream;  // its number among the given names
    bool sent;       // by this request
  } list[JOINED_SWEEPS_MAX];
  int64_t wanted;              // sweeps that the request asked for
  const struct sweep *newest;  // of the first stream: all sweeps are moved into its frame
  int64_t evicted, expired;    // sweeps of the streams, since an answer last reported them
  bool begun;                  // the request's stream had no sweep before
  bool repeated;               // the request's newest sweep replaces a sweep of the same time
  struct pose mount;           // of the request's sweeps; the identity if there is none
};

// Gathers the sweeps that the request of this turn joins: the request's own, newest first, and the streams' sweeps.
// Leaves out a stream's sweep that has the time of a sweep of the request. Adds the mount to the poses of the request's
// sweeps, notes the sweep before each of them, and adds a user to each gathered sweep. False with an error: the
// request's newest sweep is older than the stream's newest, or a stream has sweeps of another shape.
VX_WARN_UNUSED bool gather_sweeps(struct streams *streams, struct stream_turn *turn, const struct stream_terms *terms,
                                  const struct sweep_shape *shape, struct sweep *own, struct gathered *gathered,
                                  struct error *error);
// Gathers the sweeps of the client's stream, with their shape and the terms of its last request. False with an error:
// there is no such stream.
VX_WARN_UNUSED bool gather_last(struct streams *streams, const struct client *client, const char *name,
                                struct gathered *gathered, struct stream_terms *terms, struct sweep_shape *shape,
                                struct error *error);
void gathered_release(struct streams *streams, struct gathered *gathered);

// After the request of this turn has succeeded: the stream adds the request's own sweeps to its sweeps, keeps at most
// as many as `terms` ask for, and keeps the turn's tracks. `lost`: the request's sweeps without room, which count as
// evicted. A stream that its client has dropped since gather_sweeps keeps nothing.
void keep_sweeps(struct streams *streams, struct stream_turn *turn, const struct stream_terms *terms,
                 const struct sweep_shape *shape, struct sweep *own, int32_t lost);

#endif
