// Streams: each keeps the last sweeps of one sensor, the newest first.
//
// A stream belongs to one client; others neither use nor see it. One request of a stream runs at a time. The stream
// keeps the request's sweeps once the request was answered or spared. A reader counts as a user of a sweep, so it
// copies the sweep without the lock.
//
// Each sweep owns its memory. When a sweep has no users, streams_lock_release releases the memory with the function
// that was passed to streams_init.
//
// Any thread. This room alone calls the functions in the last part of this header, with the lock held. All others take
// the lock themselves.
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

// Once a stream keeps it, only `next` and `users` change.
struct sweep {
  struct sweep *next;  // the next older sweep of the same request; later the next in the list `ended` or `spare`
  int users;           // the stream that has it, its request, and its readers
  double time;
  struct pose place;  // of its sensor in the fixed frame
  bool follows;       // there was an earlier sweep when it came, with the two values below
  double before_time;
  struct pose before;  // the place of the earlier sweep
  int64_t points;
  const void *rows;
  struct buffer *memory;      // of the rows; NULL: there are none
  size_t bytes;               // of that memory
  struct join_counts counts;  // of its points, when its own request joined it
  int64_t came_ns;
};

// The tracks of one model's boxes in a stream. They begin with the stream and end with its last sweep. The request with
// the stream's turn reads and replaces them.
struct stream_tracks {
  struct stream_tracks *next;  // of another model; later the next in the list `ended_tracks`
  struct buffer *memory;       // of this struct and its tracks
  size_t bytes;                // of that memory
  char model[DETECTOR_NAME_SIZE];
  struct vx_tracks *tracks;
};

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
  struct stream_terms terms;  // of the last request whose sweeps were kept
  int64_t evicted, expired;   // sweeps, since an answer last reported them
  bool dropped;               // its client has deleted the stream since the last gather_sweeps
  struct stream_tracks *tracks;
};

struct streams_use {
  int64_t streams, sweeps, bytes;                       // now
  unsigned long long kept, repeated, evicted, expired;  // sweeps, since the start
};

struct streams {
  struct lock lock;
  atomic_llong count;  // streams; changes with the lock held
  struct stream *first;
  struct sweep *ended;                 // without users; for streams_lock_release
  struct sweep *spare;                 // for reuse
  struct stream_tracks *ended_tracks;  // for streams_lock_release
  struct clients *clients;
  void (*release)(struct buffer *memory);
  int64_t memory_bytes;  // limit for all sweeps and tracks together; 0: this server keeps no streams
  int64_t ttl_ns;
  struct streams_use use;  // without the count of streams
  struct events events;
};

void streams_init(struct streams *streams, const struct options *options, struct clients *clients,
                  void (*release)(struct buffer *memory));
void streams_end(struct streams *streams);  // all turns and requests must have ended
// False with an error: this server keeps no streams.
VX_WARN_UNUSED bool streams_allow(const struct streams *streams, struct error *error);
// Call it regularly while there are streams: drops sweeps that are older than stream_ttl_s.
void streams_tick(struct streams *streams, int64_t now_ns);
// Drops the oldest sweep of the client, or of all clients (NULL), to make room. Skips streams whose oldest sweep has a
// reader. False: there is none to drop.
VX_WARN_UNUSED bool streams_evict(struct streams *streams, const struct client *client);
struct streams_use streams_use(struct streams *streams);

// A sweep without a stream, with one user. NULL: out of memory.
struct sweep *sweep_new(struct streams *streams);
// Removes a user of the sweep and of all sweeps linked after it. `first` may be NULL.
void sweeps_release(struct streams *streams, struct sweep *first);

// ---- turns.c: the order of the requests of one stream ---------------------------------------------------------------

// The next turn goes to the waiting request whose newest sweep is the earliest. So each request joins the sweeps before
// its own. No call blocks.

enum { STREAM_WAITING = 64 };  // requests that may wait in one stream

// The owner keeps the struct from turn_acquire to turn_release.
struct stream_turn {
  struct stream *stream;  // NULL: it has not entered
  struct stream_turn *next;
  double time;                              // of the request's newest sweep
  bool listed;                              // the time is from `times`, not from `time`
  int64_t evicted, expired;                 // sweeps that the answer should report
  bool superseded;                          // a newer request superseded this one, which only gives its sweep
  struct stream_tracks *tracks;             // the new ones; keep_sweeps swaps them for the stream's old ones
  void (*begin)(struct stream_turn *turn);  // called on any thread when a turn that waited begins
};

enum stream_entry { STREAM_TURN, STREAM_WAITS, STREAM_REFUSED };

// Takes a turn in the client's stream of that name. Begins the stream if there is none. STREAM_WAITS: another turn
// comes first. If this turn may wait, `begin` is called once it begins; else it has not entered. STREAM_REFUSED: there
// is an error.
VX_WARN_UNUSED enum stream_entry turn_acquire(struct streams *streams, struct client *client, const char *name,
                                              struct stream_turn *turn, bool may_wait, struct error *error);
// Begins the next turn. If no answer has reported the turn's evicted and expired sweeps, a later one will. Does nothing
// if the turn has not entered.
void turn_release(struct streams *streams, struct stream_turn *turn);

// Removes from all streams the waiting turns for which `chosen`, called with the lock held, returns true. Returns them
// as a list linked by `next`.
struct stream_turn *streams_take_waiting(struct streams *streams, bool (*chosen)(struct stream_turn *turn, void *cls),
                                         void *cls);

// ---- gather.c: the sweeps that a request joins, and the sweeps that its stream keeps --------------------------------

// Sweeps to join: the newest of each stream, in the order of the given names; then the second newest of each, and so
// on.
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

// Gathers the sweeps that the request of this turn joins: its own, linked newest first, and the streams'. Of two sweeps
// of the request's stream with the same time, takes the request's. Adds the mount to the poses of the request's sweeps,
// notes the sweep before each of them, and adds a user to each gathered sweep. False with an error: the request's
// newest sweep is older than its stream's newest, a stream has sweeps of another shape, or the first stream has no
// sweep.
VX_WARN_UNUSED bool gather_sweeps(struct streams *streams, struct stream_turn *turn, const struct stream_terms *terms,
                                  const struct sweep_shape *shape, struct sweep *own, struct gathered *gathered,
                                  struct error *error);
// Gathers the sweeps of the client's stream, with their shape and the terms of its last request. False with an error:
// there is no such stream.
VX_WARN_UNUSED bool gather_last(struct streams *streams, const struct client *client, const char *name,
                                struct gathered *gathered, struct stream_terms *terms, struct sweep_shape *shape,
                                struct error *error);
void gathered_release(struct streams *streams, struct gathered *gathered);

// After the request of this turn was answered or spared: the stream adds the request's sweeps to its own, keeps at most
// as many as `terms` ask for, and keeps the turn's tracks. `lost`: the request's sweeps without room, which count as
// evicted. A stream that its client has deleted since gather_sweeps keeps nothing.
void keep_sweeps(struct streams *streams, struct stream_turn *turn, const struct stream_terms *terms,
                 const struct sweep_shape *shape, struct sweep *own, int32_t lost);

// ---- snapshot.c: what clients read and delete -----------------------------------------------------------------------

// Writes the client's stream of that name as an object, or all its streams (NULL) as an object with a list. False with
// an error: there is no such stream.
VX_WARN_UNUSED bool streams_write(struct streams *streams, const struct client *client, const char *name,
                                  struct text *out, struct error *error);
// Drops all sweeps of the client's stream. False with an error: there is no such stream.
VX_WARN_UNUSED bool streams_delete(struct streams *streams, const struct client *client, const char *name,
                                   struct error *error);
// The stream need not have begun.
VX_WARN_UNUSED bool streams_subscribe(struct streams *streams, struct client *client, const char *name,
                                      struct subscriber *subscriber, struct error *error);
// Returns false.
bool streams_refuse_name(const char *name, struct error *error);

// ---- with the lock held ---------------------------------------------------------------------------------------------

// NULL: the client has no such stream.
struct stream *streams_find(const struct streams *streams, const struct client *client, const char *name)
    HOLDS(streams->lock);
// NULL with an error.
struct stream *streams_add(struct streams *streams, struct client *client, const char *name, struct error *error)
    HOLDS(streams->lock);
// Ends the stream if it has no sweep and no turn.
void streams_prune(struct streams *streams, struct stream *stream) HOLDS(streams->lock);
// `dropped` becomes event.count.
void streams_tell(struct streams *streams, const struct stream *stream, enum event_kind kind, int64_t dropped)
    HOLDS(streams->lock);
// Drops the sweeps from number `first` on. The stream stays.
void streams_cut(struct streams *streams, struct stream *stream, int32_t first) HOLDS(streams->lock);
void streams_end_tracks(struct streams *streams, struct stream *stream) HOLDS(streams->lock);
void streams_expire(struct streams *streams, int64_t now_ns) HOLDS(streams->lock);
void sweep_release(struct streams *streams, struct sweep *sweep) HOLDS(streams->lock);
// Releases the lock, and then the memory of sweeps without users and of tracks that have ended.
void streams_lock_release(struct streams *streams) RELEASES(streams->lock);

#endif
