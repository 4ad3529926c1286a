// Turns: one request of a stream runs at a time; the others wait. The next turn goes to the waiting request with the
// earliest sweep. So each request joins all sweeps before its own.
//
// No call blocks: `begin` is called when the turn of a waiting request begins. Any thread.
#ifndef VOXELD_TURNS_H
#define VOXELD_TURNS_H

#include "server/streams/streams.h"

enum { STREAM_WAITING = 64 };  // requests that may wait in one stream

// The owner keeps the struct from turn_acquire to turn_release.
struct stream_turn {
  struct stream *stream;  // NULL: it has not entered
  struct stream_turn *next;
  double time;                              // of the request's newest sweep
  bool listed;                              // the time is from `times`, not from `time`
  int64_t evicted, expired;                 // sweeps that the answer should report
  bool superseded;                          // a newer request superseded this one, which only keeps its sweep
  struct stream_tracks *tracks;             // after the request; keep_sweeps exchanges them for those before it
  void (*begin)(struct stream_turn *turn);  // called on any thread when a turn that waited begins
};

enum stream_entry { STREAM_TURN, STREAM_WAITS, STREAM_REFUSED };

// Takes a turn in the client's stream of that name. Begins the stream if there is none. STREAM_WAITS: another turn
// comes first. If this turn may wait, `begin` will be called once it begins; else this turn has not entered.
// STREAM_REFUSED: there is an error.
VX_WARN_UNUSED enum stream_entry turn_acquire(struct streams *streams, struct client *client, const char *name,
                                              struct stream_turn *turn, bool may_wait, struct error *error);
// Ends the turn, and begins the next. A later answer then reports the evicted and expired sweeps that no answer has
// reported yet. Does nothing if the turn has not entered.
void turn_release(struct streams *streams, struct stream_turn *turn);

// Removes from all streams the waiting turns for which `leaves` returns true, and returns them as a list linked by
// `next`. The order of the others stays. `leaves` is called with the lock of the streams held.
struct stream_turn *streams_take_waiting(struct streams *streams, bool (*leaves)(struct stream_turn *turn, void *cls),
                                         void *cls);

#endif
