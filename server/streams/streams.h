// Streams: for each, the last sweeps of one sensor, the newest first.
//
// A stream belongs to its client; others neither use nor see it. turns.h has the order of its requests, gather.h what
// they join and what is kept, look.h what clients are told of it.
//
// Each sweep has memory of its own. It goes back, by the function that streams_init gets, once no stream has the sweep
// and nobody reads it. Any thread; what says "with the lock held" is for this room, all else locks
// for itself.
#ifndef VOXELD_STREAMS_H
#define VOXELD_STREAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/base/problem.h"
#include "api/params/stream.h"
#include "kernels/tensor.h"
#include "server/base/lock.h"
#include "server/clients/clients.h"
#include "server/config/options.h"
#include "server/streams/events.h"

enum { STREAMS_MAX = 1024 };  // of all clients; each has a share of them

struct buffer;
struct stream_turn;

// A sweep as it came. It does not change once it is kept.
struct sweep {
  struct sweep *next;  // the one before it of the same request; then among those that ended, or are spare
  int users;           // the stream that has it, its request, and those who read it
  double time;
  struct pose place;  // of its sensor in the fixed frame
  int64_t points;
  const void *rows;
  struct buffer *memory;      // of the rows; NULL: there are none
  size_t bytes;               // of that memory
  struct join_counts counts;  // of its points, when its request joined it
  int64_t came_ns;
};

// The columns of a sweep.
struct sweep_shape {
  int32_t columns;
  enum vx_dtype dtype;
};

struct stream {
  struct stream *next;
  struct client *client;
  char name[STREAM_NAME_SIZE];
  struct stream_turn *turn;     // NULL: nobody has it
  struct stream_turn *waiting;  // the earliest first
  int waiting_count;
  struct sweep *sweeps[STREAM_SWEEPS_MAX];  // [count], the newest first
  int32_t count;
  struct sweep_shape shape;   // of all sweeps
  bool mounted;               // `mount` was given
  struct pose mount;          // of the sensor on its vehicle
  struct stream_terms terms;  // of the last request that succeeded
  int64_t evicted, expired;   // sweeps, since an answer last told of it
  bool dropped;               // by its client, since it was last gathered
};

struct streams_use {
  int64_t streams, sweeps, bytes;                       // now
  unsigned long long kept, repeated, evicted, expired;  // sweeps, since the start
};

struct streams {
  struct lock lock;
  struct stream *first;
  struct sweep *ended;  // used by nobody any more; their memory is given back without the lock
  struct sweep *spare;  // to be used again
  struct clients *clients;
  void (*give)(struct buffer *memory);
  int64_t memory_bytes;  // that all sweeps together may take; 0: this server keeps none
  int64_t ttl_ns;
  struct streams_use use;
  struct events events;
};

void streams_init(struct streams *streams, const struct options *options, struct clients *clients,
                  void (*give)(struct buffer *memory));
void streams_destroy(struct streams *streams);  // no turn is left, and no sweep of a request
// False with an error: this server keeps none.
VX_WARN_UNUSED bool streams_allow(const struct streams *streams, struct error *error);
// To be called now and then: drops sweeps that came stream_ttl_s ago or earlier, and looks after subscribers.
void streams_tick(struct streams *streams, int64_t now_ns);
// Drops the oldest sweep of the client, or of all (NULL), to make room. One that is read would make none now. False if
// there is none.
VX_WARN_UNUSED bool streams_evict(struct streams *streams, const struct client *client);
struct streams_use streams_use(struct streams *streams);

// A sweep that no stream has yet, with one user. NULL: out of memory.
struct sweep *sweep_new(struct streams *streams);
// One user less, of it and of those behind it. NULL: none.
void sweeps_leave(struct streams *streams, struct sweep *first);

// ---- with the lock held ---------------------------------------------------------------------------------------------

// NULL: the client has no such stream.
struct stream *streams_find(const struct streams *streams, const struct client *client, const char *name)
    HOLDS(streams->lock);
// A new stream, without sweeps. NULL with an error.
struct stream *streams_add(struct streams *streams, struct client *client, const char *name, struct error *error)
    HOLDS(streams->lock);
// Ends the stream if it has no sweep and nobody has a turn in it.
void streams_prune(struct streams *streams, struct stream *stream) HOLDS(streams->lock);
// Tells subscribers what happened to the stream, which has `count` sweeps left; for `dropped`, see struct event.
void streams_tell(struct streams *streams, const struct stream *stream, enum event_kind kind, int64_t dropped)
    HOLDS(streams->lock);
// Drops the sweeps from number `first` on. The stream stays.
void streams_cut(struct streams *streams, struct stream *stream, int32_t first) HOLDS(streams->lock);
// As streams_tick.
void streams_expire(struct streams *streams, int64_t now_ns) HOLDS(streams->lock);
// One user less.
void streams_let_go(struct streams *streams, struct sweep *sweep) HOLDS(streams->lock);
// Unlocks, and gives back the memory of sweeps that nobody uses any more.
void streams_unlock(struct streams *streams) RELEASES(streams->lock);

#endif
