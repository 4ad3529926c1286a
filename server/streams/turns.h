// Turns: while a request has its turn in a stream, the stream's other requests wait, and of those that wait the
// earliest goes next. So each joins what came before it, and none is mixed with another.
//
// Nobody blocks: a request that has to wait is told when its turn begins. Any thread.
#ifndef VOXELD_TURNS_H
#define VOXELD_TURNS_H

#include "server/streams/streams.h"

enum { STREAM_WAITING = 64 };  // requests that may wait in one stream

// Its owner keeps it from stream_enter to stream_leave.
struct stream_turn {
  struct stream *stream;  // NULL: it has not entered
  struct stream_turn *next;
  double time;                              // of the request's newest sweep
  bool listed;                              // which is the first of `times`, and not `time`
  int64_t evicted, expired;                 // sweeps that its answer is to tell of
  void (*begin)(struct stream_turn *turn);  // called once a turn that had to wait begins, on any thread
};

enum stream_entry { STREAM_TURN, STREAM_WAITS, STREAM_REFUSED };

// Takes a turn in the client's stream of that name, which begins with it if there is none. STREAM_WAITS: `begin` will
// be called; if the turn may not wait, it has not entered. STREAM_REFUSED: there is a problem.
VX_WARN_UNUSED enum stream_entry stream_enter(struct streams *streams, struct client *client, const char *name,
                                              struct stream_turn *turn, bool may_wait, struct error *error);
// Ends the turn, and begins the next. What its answer was to tell of and did not is left to a later one. Does nothing
// if the turn has not entered.
void stream_leave(struct streams *streams, struct stream_turn *turn);

// Takes those turns that wait and for which `leaves` says so out of all streams: as a list linked by `next`, of turns
// that have not entered. The order of the others stays. `leaves` is called with the lock of the streams held.
struct stream_turn *streams_take_waiting(struct streams *streams,
                                         bool (*leaves)(struct stream_turn *turn, int64_t now_ns), int64_t now_ns);

#endif
