// What a request of a stream joins, and what the stream keeps of it.
//
// A sweep is kept only once its request has succeeded. Copying is done without the lock: those who read a sweep are its
// users. Any thread.
#ifndef VOXELD_GATHER_SWEEPS_H
#define VOXELD_GATHER_SWEEPS_H

#include "server/streams/turns.h"

// Sweeps to join, in order: the newest of each stream, in the order of the streams' names; then those before them.
struct gathered {
  int32_t count;
  struct {
    struct sweep *sweep;
    int32_t stream;  // its number among the names
    bool sent;       // by this request
  } list[JOINED_SWEEPS_MAX];
  int64_t wanted;              // sweeps that were asked for
  const struct sweep *newest;  // of the first stream: all are moved into its frame
  int64_t evicted, expired;    // of the streams, since an answer last told of it
  bool begun;                  // the request's stream had no sweep before
  bool repeated;               // the request's newest sweep takes the place of one of the same time
};

// Gathers what the request of this turn joins: its own sweeps, the newest first, and those that the streams have. One
// of the same time as one of its own is left out. Adds the mount to the places of its own. Each has one more user then.
// False with an error: the newest is older than that of the stream, or a stream's shape is another.
VX_WARN_UNUSED bool gather_sweeps(struct streams *streams, struct stream_turn *turn, const struct stream_terms *terms,
                                  const struct sweep_shape *shape, struct sweep *own, struct gathered *gathered,
                                  struct error *error);
// Gathers the sweeps that the client's stream has, and tells their shape and the terms of its last request. False with
// a problem if there is no such stream.
VX_WARN_UNUSED bool gather_last(struct streams *streams, const struct client *client, const char *name,
                                struct gathered *gathered, struct stream_terms *terms, struct sweep_shape *shape,
                                struct error *error);
void gathered_release(struct streams *streams, struct gathered *gathered);

// The request of this turn has succeeded: its stream keeps its own sweeps among those that it has, and no more sweeps
// than `terms` ask for. `lost`: its sweeps that there was no room for; they count as evicted. A
// stream that its client dropped since it was gathered keeps nothing.
void keep_sweeps(struct streams *streams, struct stream_turn *turn, const struct stream_terms *terms,
                 const struct sweep_shape *shape, struct sweep *own, int32_t lost);

#endif
