// Streams: for each, the last sweeps of one sensor, the newest first.
//
// A stream belongs to its client. Other clients neither use nor see it. turns.h orders the requests of a stream.
// gather.h chooses the sweeps to join and to keep.
//
// Each sweep owns its memory. When no stream has the sweep and no reader uses it, streams_lock_release releases the
// memory with the function that was passed to streams_init.
//
// Any thread. The last part of this header is for this room: its functions are called with the lock held. All other
// functions take the lock themselves.
#ifndef VOXELD_STREAMS_H
#define VOXELD_STREAMS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/base/text.h"
#include "api/detector.h"
#include "api/params/stream.h"
#include "kernels/tensor.h"
#include "kernels/tracks.h"
#include "server/base/lock.h"
#include "server/clients/clients.h"
#include "server/config/options.h"
#include "server/streams/events.h"

enum { STREAMS_MAX = 1024 };  // of all clients; each has a share of them

struct buffer;
struct stream_turn;

// A sweep as it came. It does not change once it is kept.
struct sweep {
  struct sweep *next;  // the next older sweep of the same request; later the next in the list `ended` or `spare`
  int users;           // the stream that has it, its request, and its readers
  double time;
  struct pose place;  // of its sensor in the fixed frame
  bool follows;       // when it came, the stream had an earlier sweep, with the two values below
  double before_time;
  struct pose before;  // the place of the earlier sweep
  int64_t points;
  const void *rows;
  struct buffer *memory;      // of the rows; NULL: there are none
  size_t bytes;               // of that memory
  struct join_counts counts;  // of its points, when its own request joined it
  int64_t came_ns;
};

// The tracks of the boxes that one model has found in a stream. They begin with the stream and end with its last sweep.
// Only the request with the stream's turn reads or replaces them.
struct stream_tracks {
  struct stream_tracks *next;  // of another model; later the next in the list `ended_tracks`
  struct buffer *memory;       // of this struct and its tracks
  size_t bytes;                // of that memory
  char model[DETECTOR_NAME_SIZE];
  struct vx_tracks *tracks;
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
  struct stream_turn *turn;     // NULL: no request has the turn
  struct stream_turn *waiting;  // the earliest first
  int waiting_count;
  struct sweep *sweeps[STREAM_SWEEPS_MAX];  // [count], the newest first
  int32_t count;
  struct sweep_shape shape;   // of all sweeps
  bool mounted;               // `mount` was given
  struct pose mount;          // of the sensor on its vehicle
  struct stream_terms terms;  // of the last request that succeeded
  int64_t evicted, expired;   // sweeps, since an answer last reported them
  bool dropped;               // its client has deleted the stream since the last gather_sweeps
  struct stream_tracks *tracks;
};

struct streams_use {
  atomic_llong streams;                                 // now; changes with the lock held
  int64_t sweeps, bytes;                                // now
  unsigned long long kept, repeated, evicted, expired;  // sweeps, since the start
};

struct streams {
  struct lock lock;
  struct stream *first;
  struct sweep *ended;                 // without users; streams_lock_release releases their memory
  struct sweep *spare;                 // for reuse
  struct stream_tracks *ended_tracks;  // streams_lock_release releases their memory
  struct clients *clients;
  void (*release)(struct buffer *memory);
  int64_t memory_bytes;  // limit for all sweeps together; 0: this server keeps no streams
  int64_t ttl_ns;
  struct streams_use use;
  struct events events;
};

void streams_init(struct streams *streams, const struct options *options, struct clients *clients,
                  void (*release)(struct buffer *memory));
void streams_end(struct streams *streams);  // all turns and requests must have ended
// False with an error: this server keeps no streams.
VX_WARN_UNUSED bool streams_allow(const struct streams *streams, struct error *error);
// Call it regularly while there are streams: drops sweeps that are older than stream_ttl_s.
void streams_tick(struct streams *streams, int64_t now_ns);
// Drops the oldest sweep of the client, or of all clients (NULL), to make room. Skips sweeps that have a reader. False:
// there is no sweep to drop.
VX_WARN_UNUSED bool streams_evict(struct streams *streams, const struct client *client);
struct streams_use streams_use(struct streams *streams);

// A sweep without a stream, with one user. NULL: out of memory.
struct sweep *sweep_new(struct streams *streams);
// Removes a user of the sweep and of all sweeps linked after it. `first` may be NULL.
void sweeps_release(struct streams *streams, struct sweep *first);

// ---- snapshot.c: what clients read and delete -----------------------------------------------------------------------

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

// ---- with the lock held ---------------------------------------------------------------------------------------------

// NULL: the client has no such stream.
struct stream *streams_find(const struct streams *streams, const struct client *client, const char *name)
    HOLDS(streams->lock);
// A new stream, without sweeps. NULL with an error.
struct stream *streams_add(struct streams *streams, struct client *client, const char *name, struct error *error)
    HOLDS(streams->lock);
// Ends the stream if it has no sweep and no request has a turn in it.
void streams_prune(struct streams *streams, struct stream *stream) HOLDS(streams->lock);
// Sends subscribers an event of the stream. `dropped` becomes event.count.
void streams_tell(struct streams *streams, const struct stream *stream, enum event_kind kind, int64_t dropped)
    HOLDS(streams->lock);
// Drops the sweeps from number `first` on. The stream stays.
void streams_cut(struct streams *streams, struct stream *stream, int32_t first) HOLDS(streams->lock);
// Ends the tracks of all models.
void streams_end_tracks(struct streams *streams, struct stream *stream) HOLDS(streams->lock);
// Does what streams_tick does.
void streams_expire(struct streams *streams, int64_t now_ns) HOLDS(streams->lock);
// Removes a user.
void sweep_release(struct streams *streams, struct sweep *sweep) HOLDS(streams->lock);
// Releases the lock, and then the memory of sweeps without users and of tracks that have ended.
void streams_lock_release(struct streams *streams) RELEASES(streams->lock);

#endif
